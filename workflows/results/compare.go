package results

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/workflows/experiment"
)

// Side is one run of a comparison.
type Side struct {
	Spec    *experiment.Spec
	Results *Results
	// row reports whether the side is reduced to one row of replicates.
	row bool
}

// Comparison compares two runs cell by cell.
type Comparison struct {
	// Before and After are the runs' ids.
	Before string `json:"before"`
	After  string `json:"after"`
	// Pairs are the cells that both runs have at the same point of the grid, or the only cells of both.
	Pairs []Pair `json:"pairs"`
	// OnlyBefore and OnlyAfter are the labels of the other cells.
	OnlyBefore []string `json:"only_before"`
	OnlyAfter  []string `json:"only_after"`
	// Rows are the differences, after minus before, between rows of replicates that both runs have.
	Rows []Difference `json:"rows,omitempty"`

	columns []tableColumn // of Rows
	axes    sharedAxes
}

// Pair is a cell of both runs.
type Pair struct {
	Label string `json:"label"`
	// Fields are the fields of the experiment that differ.
	Fields []experiment.Difference `json:"fields"`
	Before Cell                    `json:"before"`
	After  Cell                    `json:"after"`
	// Changes are the audits' comparisons of the two models, by the name of the audit, if both have
	// comparable outcomes.
	Changes map[string][]audits.Change `json:"changes,omitempty"`
}

// Select reduces the side to one of its cells, or to the cells of one row of replicates.
func (s Side) Select(name string) (Side, error) {
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

// has returns a list of the names, such as "c01 to c12, and the rows r01 to r04".
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

// Compare compares two runs. It returns an error if a report cannot be read.
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
	paired := slices.Sorted(maps.Values(partners))
	for j, cell := range after.Results.Cells {
		if _, found := slices.BinarySearch(paired, j); !found {
			c.OnlyAfter = append(c.OnlyAfter, cell.Label)
		}
	}
	return c, c.compareRows(before, after)
}

// compareRows adds the differences between rows of replicates at the same point of the grid, or
// between the only rows.
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

// nameOf returns a name such as "RUN/r01".
func (s Side) nameOf(row *viewRow) string {
	if s.row {
		return s.Results.Run
	}
	return s.Results.Run + "/" + row.Name
}

// changesOf returns the changes from one cell to another, by audit.
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

// partners maps cells of this side, by index, to cells of the other side.
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

// WriteScreen writes the differences of the runs as a table for a terminal, or for a file if s is nil. It
// writes the fields of the experiment, and then the columns of the results, as in "3/8 -> 5/8", or the
// differences between rows of replicates with the rows whose utility is not matched.
func (c *Comparison) WriteScreen(w io.Writer, s *Terminal) error {
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
		table := differenceTable(c.columns, c.Rows)
		b.WriteByte('\n')
		s.table(&b, table.Header, table.texts())
		for _, note := range unmatched(c.Rows) {
			b.WriteString(note + "\n")
		}
	} else if len(c.Pairs) > 0 {
		v, err := c.cells()
		if err != nil {
			return err
		}
		header, rows := v.pairs()
		b.WriteByte('\n')
		s.table(&b, header, rows)
		for _, note := range v.warnings() {
			s.paragraph(&b, note)
		}
	}
	for i := range c.Pairs {
		c.Pairs[i].writeChanges(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeShared writes, for different grids, the number of common cells and the axes that differ, and tells
// how to compare other cells.
func (c *Comparison) writeShared(b *strings.Builder) {
	only := len(c.OnlyBefore) + len(c.OnlyAfter)
	if only == 0 {
		return
	}
	fmt.Fprintf(b, "the grids differ: %d of %s at the same point of both", len(c.Pairs), readable.Count(len(c.Pairs)+only, "cell"))
	for _, part := range []struct {
		name string
		axes []string
	}{{"axes of both", c.axes.both}, {"only in " + c.Before, c.axes.before}, {"only in " + c.After, c.axes.after}} {
		if len(part.axes) > 0 {
			fmt.Fprintf(b, "; %s: %s", part.name, strings.Join(part.axes, ", "))
		}
	}
	b.WriteByte('\n')
	if !strings.Contains(c.Before+c.After, "/") {
		fmt.Fprintf(b, "to compare two cells: coalmine compare %s/c01 %s/c01\n", c.Before, c.After)
	}
}

// sharedAxes holds the axis paths of two grids.
type sharedAxes struct{ both, before, after []string }

// newSharedAxes groups the axes of two runs by the runs that have them.
func newSharedAxes(before, after Side) (x sharedAxes) {
	a, b := before.paths(), after.paths()
	x.both = lists.Filter(a, func(path string) bool { return slices.Contains(b, path) })
	x.before = lists.Filter(a, func(path string) bool { return !slices.Contains(b, path) })
	x.after = lists.Filter(b, func(path string) bool { return !slices.Contains(a, path) })
	return x
}

// paths returns the paths of all axes of the cells, sorted.
func (s Side) paths() (list []string) {
	for i := range s.Spec.Cells {
		for _, axis := range s.Spec.Cells[i].Axes {
			list = append(list, axis.Path)
		}
	}
	return lists.Distinct(list)
}

// writeFields writes each difference once, with its cells unless it applies to all, and then the names of
// the fields that follow from others.
func (c *Comparison) writeFields(b *strings.Builder) {
	var order, derived []string
	labels := make(map[string][]string)
	for _, p := range c.Pairs {
		for _, d := range p.Fields {
			if d.Derived {
				if path := readable.Text(d.Path); !slices.Contains(derived, path) {
					derived = append(derived, path)
				}
				continue
			}
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
		cells := ""
		if in := labels[text]; len(in) < len(c.Pairs) {
			cells = " (" + strings.Join(in, "; ") + ")"
		}
		fmt.Fprintf(b, "  %s%s\n", text, cells)
	}
	if len(order) > 0 && len(derived) > 0 {
		fmt.Fprintf(b, "  derived from these: %s\n", strings.Join(derived, ", "))
	}
}

// writeChanges writes a line for each change, in the order of the audits.
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

// cells is a view of the cells of all pairs, first and second in turn, which are named with their run.
func (c *Comparison) cells() (*view, error) {
	both := &Results{}
	named := func(cell Cell, side string) Cell {
		run, _, _ := strings.Cut(side, "/")
		cell.Row, cell.Cell = nil, run+"/"+cell.Cell // cells are compared individually
		return cell
	}
	for i := range c.Pairs {
		both.Cells = append(both.Cells, named(c.Pairs[i].Before, c.Before), named(c.Pairs[i].After, c.After))
	}
	return both.view()
}

// pairs formats a view of pairs as text: "3/8 -> 5/8" where the two cells differ.
func (v *view) pairs() (header []string, rows [][]string) {
	table := v.table()
	for pair := range slices.Chunk(table.texts(), 2) {
		var row []string
		for k := range table.Header {
			before, after := cmp.Or(pair[0][k], "-"), cmp.Or(pair[1][k], "-")
			if before != after {
				before += " -> " + after
			}
			row = append(row, before)
		}
		rows = append(rows, row)
	}
	return table.Header, rows
}
