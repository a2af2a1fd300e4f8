package results

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/readable"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/workflows/experiment"
)

// Side is one run of a comparison.
type Side struct {
	Spec    *experiment.Spec
	Results *Results
	// row says that only one row of replicates of the run is left.
	row bool
}

// Comparison sets two runs side by side, cell by cell.
type Comparison struct {
	// Before and After are the runs' ids.
	Before string `json:"before"`
	After  string `json:"after"`
	// Pairs are the cells that both runs have: those of the same point of the grid,
	// or the only ones.
	Pairs []Pair `json:"pairs"`
	// OnlyBefore and OnlyAfter are the labels of the other cells.
	OnlyBefore []string `json:"only_before"`
	OnlyAfter  []string `json:"only_after"`
	// Rows are the differences of rows of replicates that both runs have: those after less
	// those before.
	Rows []Difference `json:"rows,omitempty"`

	columns []tableColumn // of Rows
	axes    sharedAxes
}

// Pair is a cell of both runs.
type Pair struct {
	Label string `json:"label"`
	// Fields are those of the experiment in which the two differ.
	Fields []experiment.Difference `json:"fields"`
	Before Cell                    `json:"before"`
	After  Cell                    `json:"after"`
	// Changes are the audits' comparisons of the two models by name of the audit, if both
	// have such outcomes.
	Changes map[string][]audits.Change `json:"changes,omitempty"`
}

// Only is the side with one of its cells, or with the cells of one of its rows of replicates.
func (s Side) Only(name string) (Side, error) {
	spec, results := *s.Spec, *s.Results
	spec.Cells, results.Cells = nil, nil
	results.Run += "/" + name
	only := Side{Spec: &spec, Results: &results}
	for i, c := range s.Results.Cells {
		inRow := c.Row != nil && c.Row.Name == name
		if inRow || c.Cell == name {
			spec.Cells, results.Cells = append(spec.Cells, s.Spec.Cells[i]), append(results.Cells, c)
			only.row = inRow
		}
	}
	if len(results.Cells) == 0 {
		return Side{}, fmt.Errorf("run %s has no cell %q: it has %s", s.Results.Run, name, s.has())
	}
	return only, nil
}

// has is "c01 to c12, and the rows r01 to r04".
func (s Side) has() string {
	cells := s.Results.Cells
	text := readable.Range(cells[0].Cell, cells[len(cells)-1].Cell)
	rows := []string{}
	for _, c := range cells {
		if c.Row != nil {
			rows = append(rows, c.Row.Name)
		}
	}
	if len(rows) > 0 {
		text += ", and the rows " + readable.Range(slices.Min(rows), slices.Max(rows))
	}
	return text
}

// Compare sets two runs side by side. A report that cannot be read is an error.
func Compare(before, after Side) (*Comparison, error) {
	c := &Comparison{Before: before.Results.Run, After: after.Results.Run, Pairs: []Pair{}, OnlyBefore: []string{}, OnlyAfter: []string{}, axes: newSharedAxes(before, after)}
	partners := before.partners(after)
	for i, cell := range before.Results.Cells {
		j, found := partners[i]
		if !found {
			c.OnlyBefore = append(c.OnlyBefore, cell.Label)
			continue
		}
		changes, err := changesOf(&cell, &after.Results.Cells[j])
		if err != nil {
			return nil, err
		}
		c.Pairs = append(c.Pairs, Pair{
			Label:  cell.Label,
			Fields: experiment.Differences(&before.Spec.Cells[i].Experiment, &after.Spec.Cells[j].Experiment),
			Before: cell, After: after.Results.Cells[j], Changes: changes,
		})
	}
	paired := make(map[int]bool)
	for _, j := range partners {
		paired[j] = true
	}
	for j, cell := range after.Results.Cells {
		if !paired[j] {
			c.OnlyAfter = append(c.OnlyAfter, cell.Label)
		}
	}
	return c, c.compareRows(before, after)
}

// compareRows adds the differences of rows of replicates: those of the same point of the
// grid, or the two that are left.
func (c *Comparison) compareRows(before, after Side) error {
	a, err := before.Results.view()
	if err != nil {
		return err
	}
	b, err := after.Results.view()
	if err != nil {
		return err
	}
	for _, row := range b.rows {
		for _, to := range a.rows {
			if !(before.row && after.row) && row.Axes.String() != to.Axes.String() {
				continue
			}
			if d := newDifference(row, to); d != nil {
				d.Row, d.To = after.nameOf(row), before.nameOf(to)
				c.Rows = append(c.Rows, *d)
			}
		}
	}
	c.columns = b.columns()
	return nil
}

// nameOf is "RUN/r01".
func (s Side) nameOf(row *viewRow) string {
	if s.row {
		return s.Results.Run
	}
	return s.Results.Run + "/" + row.Name
}

// changesOf are the changes from one cell to another by audit.
func changesOf(before, after *Cell) (map[string][]audits.Change, error) {
	a, err := newViewCell(before)
	if err != nil {
		return nil, err
	}
	b, err := newViewCell(after)
	if err != nil {
		return nil, err
	}
	var changes map[string][]audits.Change
	for place, d := range all.Audits() {
		before, after := a.outcomes[place], b.outcomes[place]
		if d.Changes == nil || before == nil || after == nil {
			continue
		}
		if changes == nil {
			changes = make(map[string][]audits.Change)
		}
		changes[d.Name] = d.Changes(before, after)
	}
	return changes, nil
}

// partners gives for cells of one side, by index, those of the other.
func (s Side) partners(other Side) map[int]int {
	if len(s.Spec.Cells) == 1 && len(other.Spec.Cells) == 1 {
		return map[int]int{0: 0}
	}
	point := func(c *experiment.Cell) string { return c.Axes.String() }
	if s.row && other.row {
		point = func(c *experiment.Cell) string { return strconv.FormatUint(c.Experiment.Seed, 10) }
	}
	at := make(map[string]int)
	for j := range other.Spec.Cells {
		at[point(&other.Spec.Cells[j])] = j
	}
	partners := make(map[int]int)
	for i := range s.Spec.Cells {
		if j, found := at[point(&s.Spec.Cells[i])]; found {
			partners[i] = j
		}
	}
	return partners
}

// WriteTable writes the differences of the runs as a table: fields of the experiment, and
// then the columns of the results, "3/8 -> 5/8" where they differ; of rows of replicates
// the differences.
func (c *Comparison) WriteTable(w io.Writer) error { return c.WriteScreen(w, nil) }

// WriteScreen is WriteTable for a terminal.
func (c *Comparison) WriteScreen(w io.Writer, s *Screen) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s -> %s\n", c.Before, c.After)
	c.writeFields(&b)
	c.writeShared(&b)
	for _, label := range c.OnlyBefore {
		fmt.Fprintf(&b, "only in %s: %s\n", c.Before, label)
	}
	for _, label := range c.OnlyAfter {
		fmt.Fprintf(&b, "only in %s: %s\n", c.After, label)
	}
	if len(c.Rows) > 0 {
		c.writeRows(&b, s)
	} else if len(c.Pairs) > 0 {
		header, rows, err := c.rows()
		if err != nil {
			return err
		}
		b.WriteByte('\n')
		s.table(&b, header, rows)
	}
	for i := range c.Pairs {
		c.Pairs[i].writeChanges(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeRows writes the differences of rows of replicates, and of which utility is not matched.
func (c *Comparison) writeRows(b *strings.Builder, s *Screen) {
	table := differenceTable(c.columns, c.Rows)
	b.WriteByte('\n')
	s.table(b, table.Header, table.texts())
	for _, note := range unmatched(c.Rows) {
		b.WriteString(note + "\n")
	}
}

// writeShared says of different grids how many cells both have, and by which axes they differ.
func (c *Comparison) writeShared(b *strings.Builder) {
	only := len(c.OnlyBefore) + len(c.OnlyAfter)
	if only == 0 {
		return
	}
	fmt.Fprintf(b, "the grids differ: %d of %s at the same point of both", len(c.Pairs), readable.Count(len(c.Pairs)+only, "cell"))
	for _, part := range []struct {
		name string
		axes []string
	}{{"axes of both", c.axes.both}, {"of " + c.Before + " alone", c.axes.before}, {"of " + c.After + " alone", c.axes.after}} {
		if len(part.axes) > 0 {
			fmt.Fprintf(b, "; %s: %s", part.name, strings.Join(part.axes, ", "))
		}
	}
	b.WriteByte('\n')
}

// sharedAxes are the paths of the axes of two grids.
type sharedAxes struct{ both, before, after []string }

// newSharedAxes sorts the axes of two runs by which of them have an axis.
func newSharedAxes(before, after Side) (x sharedAxes) {
	a, b := before.paths(), after.paths()
	for _, path := range a {
		if slices.Contains(b, path) {
			x.both = append(x.both, path)
		} else {
			x.before = append(x.before, path)
		}
	}
	for _, path := range b {
		if !slices.Contains(a, path) {
			x.after = append(x.after, path)
		}
	}
	return x
}

// paths are those of the axes of all cells, sorted.
func (s Side) paths() (list []string) {
	for i := range s.Spec.Cells {
		for _, axis := range s.Spec.Cells[i].Axes {
			list = append(list, axis.Path)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// writeFields says each difference once, and of which cells if not of all.
func (c *Comparison) writeFields(b *strings.Builder) {
	var order []string
	labels := make(map[string][]string)
	for _, p := range c.Pairs {
		for _, d := range p.Fields {
			text := d.String()
			if labels[text] == nil {
				order = append(order, text)
			}
			labels[text] = append(labels[text], p.Label)
		}
	}
	if len(c.Pairs) > 0 && len(order) == 0 {
		b.WriteString("  the experiments are the same\n")
	}
	for _, text := range order {
		of := ""
		if in := labels[text]; len(in) < len(c.Pairs) {
			of = " (" + strings.Join(in, "; ") + ")"
		}
		fmt.Fprintf(b, "  %s%s\n", text, of)
	}
}

// writeChanges has a line for each change, in the order of the audits.
func (p *Pair) writeChanges(b *strings.Builder) {
	if len(p.Changes) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", p.Label)
	for _, d := range all.Audits() {
		for _, change := range p.Changes[d.Name] {
			fmt.Fprintf(b, "  %s: %s\n", d.Name, readable.Lines(change.String()))
		}
	}
}

// rows are the pairs as text.
func (c *Comparison) rows() (header []string, rows [][]string, err error) {
	both := &Results{}
	for _, p := range c.Pairs {
		p.Before.Row, p.After.Row = nil, nil // one by one
		both.Cells = append(both.Cells, p.Before, p.After)
	}
	table, err := both.Table()
	if err != nil {
		return nil, nil, err
	}
	for pair := range slices.Chunk(table.texts(), 2) {
		row := []string{pair[0][0]}
		for k := 1; k < len(table.Header); k++ {
			before, after := cmp.Or(pair[0][k], "-"), cmp.Or(pair[1][k], "-")
			if before != after {
				before += " -> " + after
			}
			row = append(row, before)
		}
		rows = append(rows, row)
	}
	return table.Header, rows, nil
}
