package results

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/tasks/audits"
)

// aboutRows explains the texts of rows.
const aboutRows = "A row is several trainings that differ only in the seed: the mean of a number, ± its standard deviation, and in brackets the 95% interval " +
	"of the mean by Student's t, cut to the range of the number; for counts of canaries, the interval of the share in all trainings by Korn and Graubard."

// spreads explains the numbers of a cell below a table on a terminal, which shows no legends.
const spreads = "mean ± standard deviation over seeds; in brackets the 95% interval of the mean, and of counts, in percent, that of the share in all seeds"

// spreads returns the explanation of the texts of rows with several seeds, or "".
func (t *Table) spreads() string {
	for _, row := range t.Rows {
		if slices.ContainsFunc(row.Texts, func(text string) bool { return strings.Contains(text, " ± ") }) {
			return spreads
		}
	}
	return ""
}

// rowTable returns the table of replicates.
func (v *view) rowTable() *Table {
	columns := v.columns()
	t := &Table{Rows: []TableRow{}, of: map[string]string{}}
	t.head("setting", aboutRows)
	t.head("seeds", "Finished trainings of the row.")
	t.note(v, v.rowNotes())
	t.Notes, t.NotesOnce = append(t.Notes, unmatched(v.differences)...), append(t.NotesOnce, unmatched(v.differences)...)
	for i := range columns {
		c := &columns[i]
		if v.compact {
			c.compact, c.of = true, v.commonOf(c.Measure)
			t.of[c.Header] = c.of
		}
		t.head(c.Header, c.about())
	}
	var gates []string
	for _, row := range v.rows {
		t.Rows = append(append(t.Rows, row.row(columns)), row.soFar(columns)...)
		gates = append(append(gates, row.gate()), slices.Repeat([]string{"-"}, len(t.Rows)-len(gates)-1)...)
	}
	if v.gated() {
		t.addGates(func(i int) string { return gates[i] })
	}
	if len(v.differences) > 0 {
		t.Differences = differenceTable(columns, v.differences)
	}
	t.Best = v.best.text()
	return t
}

// row returns a text for each column. If no cell is done, it contains the row's status.
func (r *viewRow) row(columns []tableColumn) TableRow {
	row := TableRow{Row: r.Name, Status: r.status(), Texts: []string{r.Label, r.finished()}}
	row.Cells = lists.Map(r.Seeds, func(seed uint64) string { return r.done[seed].Cell.Cell })
	for i, column := range columns {
		text := r.text(column)
		if text != "" && r.marked(column) {
			text += " " + audits.Mark
		}
		switch {
		case text == "" && i == 0 && len(r.done) == 0:
			text = r.status()
		case text == "" && !column.Leading:
			text = "-"
		}
		row.Texts = append(row.Texts, text)
	}
	return row
}

// marked reports whether the outcome of some seed may mislead.
func (r *viewRow) marked(column tableColumn) bool {
	return column.Leading && slices.ContainsFunc(r.Seeds, func(seed uint64) bool {
		return isMarked(column.place, r.done[seed].outcomes[column.place])
	})
}

// soFar returns a row for each measured cell in training. Means include only finished cells.
func (r *viewRow) soFar(columns []tableColumn) (rows []TableRow) {
	for _, c := range r.cells {
		if c.soFar == nil {
			continue
		}
		row := c.row(columns)
		row.Row, row.Texts = r.Name, slices.Insert(row.Texts, 1, "-")
		rows = append(rows, row)
	}
	return rows
}

// status returns the joint status of the cells. It is Done once all cells are done.
func (r *viewRow) status() string {
	for _, status := range []string{Failed, Cancelled, Pending} {
		if slices.ContainsFunc(r.cells, func(c *viewCell) bool { return c.Status == status }) {
			return status
		}
	}
	return Done
}

// finished returns a text such as "3", or "2 of 3".
func (r *viewRow) finished() string {
	if len(r.done) == len(r.cells) {
		return strconv.Itoa(len(r.cells))
	}
	return fmt.Sprintf("%d of %d", len(r.done), len(r.cells))
}

// text formats the mean of a column of numbers, the number of true values of a column of bools, or the
// values of other columns.
func (r *viewRow) text(column tableColumn) string {
	m := column.Measure
	switch over, ok := r.Measures[m.Name]; {
	case ok && m.Decides():
		return fmt.Sprintf("%.0f of %d", float64(over.Mean)*float64(over.N), over.N)
	case ok && column.compact && (over.Pooled == nil || column.of != ""):
		return spreadText(m, &over.Estimate)
	case ok && column.compact:
		return spreadText(m, &over.Estimate) + " of " + over.of(m)
	case ok && over.Pooled != nil:
		return fmt.Sprintf("%s of %s (%.0f-%.0f%%)", spreadText(m, &over.Estimate), over.of(m), 100*over.Pooled.Low, 100*over.Pooled.High)
	case ok:
		return spreadText(m, &over.Estimate) + intervalText(m, &over.Estimate, numberText)
	}
	return r.listed(column)
}

// of returns the mean number of candidate canaries of a count.
func (m *RowMeasure) of(measure *audits.Measure) string {
	return strings.TrimSuffix(numberText(measure, float64(m.Pooled.Of)/float64(m.N)), ".0")
}

// commonOf returns the number of candidate canaries if it is equal for all rows, or "".
func (v *view) commonOf(m *audits.Measure) (common string) {
	for _, row := range v.rows {
		over, ok := row.Measures[m.Name]
		if !ok || over.Pooled == nil {
			continue
		}
		if count := over.of(m); common == "" {
			common = count
		} else if count != common {
			return ""
		}
	}
	return common
}

// spreadText returns a text such as "21.9 ± 0.2", or "21.9" for a single seed.
func spreadText(m *audits.Measure, e *audits.Estimate) string {
	if e.SD == nil {
		return numberText(m, float64(e.Mean))
	}
	return numberText(m, float64(e.Mean)) + " ± " + numberText(m, *e.SD)
}

// intervalText returns a text such as " (21.4 to 22.4)", or "" for a single seed.
func intervalText(m *audits.Measure, e *audits.Estimate, text func(*audits.Measure, float64) string) string {
	if e.Low == nil {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", text(m, *e.Low), text(m, *e.High))
}

// numberText formats a number like the texts of its column, but with at least one decimal, because means of
// whole numbers may be fractions.
func numberText(m *audits.Measure, x float64) string {
	return numbers.Decimal(m.Scale.Of(x), max(1, m.Digits))
}

// signedText formats a difference with its sign.
func signedText(m *audits.Measure, x float64) string {
	text := numberText(m, x)
	if strings.HasPrefix(text, "-") {
		return text
	}
	return "+" + text
}

// listed lists the cells' values in a column, the most frequent first, as in "1/2000, 100% (2 of 3); 1/1000, 100%".
func (r *viewRow) listed(column tableColumn) string {
	var texts []string
	times := map[string]int{}
	for _, seed := range r.Seeds {
		outcome := r.done[seed].outcomes[column.place]
		if outcome == nil {
			continue
		}
		text := column.cell(outcome)
		if times[text]++; times[text] == 1 {
			texts = append(texts, text)
		}
	}
	slices.SortStableFunc(texts, func(a, b string) int { return times[b] - times[a] })
	for i, text := range texts {
		if times[text] > 1 && len(texts) > 1 {
			texts[i] = fmt.Sprintf("%s (%d of %d)", text, times[text], len(r.Seeds))
		}
	}
	return strings.Join(texts, "; ")
}

// rowNotes returns the notes of the cells. A note about all cells of a row occurs once.
func (v *view) rowNotes() (notes []note) {
	for _, row := range v.rows {
		notes = append(notes, row.notes()...)
	}
	return notes
}

func (r *viewRow) notes() (notes []note) {
	if text := r.stopped(); text != "" {
		notes = append(notes, note{name: r.Name, label: r.Label, text: text, row: true, done: true})
	}
	times := map[string]int{}
	var left []note
	for _, c := range r.cells {
		for _, n := range c.noted() {
			if times[n.text]++; times[n.text] == len(r.cells) {
				notes = append(notes, note{name: r.Name, label: r.Label, text: n.text, row: true})
			}
			left = append(left, n)
		}
	}
	return append(notes, lists.Filter(left, func(n note) bool { return times[n.text] < len(r.cells) })...)
}

// stopped returns a note with the number of trainings of the row that reached their target utility, and the
// mean number of rounds of all. It returns "" without a target.
func (r *viewRow) stopped() string {
	rounds := r.rounds()
	if rounds == nil {
		return ""
	}
	reached := lists.Count(r.Seeds, func(seed uint64) bool {
		stop := r.done[seed].StopAt
		return stop != nil && stop.Reached
	})
	text := spreadText(roundsMeasure, rounds) + intervalText(roundsMeasure, rounds, numberText)
	return fmt.Sprintf(": trained for %s rounds (sgd: steps); %d of %d trainings reached the target of stop_at", text, reached, rounds.N)
}

// roundsMeasure is the number of rounds of trainings with a target utility.
var roundsMeasure = &audits.Measure{Name: "rounds"}

// rounds estimates the number of rounds of the row's trainings. It returns nil without a target, because
// the number is then fixed.
func (r *viewRow) rounds() *audits.Estimate {
	rounds := audits.NewEstimate(r.each(func(c *viewCell) (float64, bool) { return float64(c.Training.Rounds), c.StopAt != nil }))
	if rounds != nil {
		rounds.Clip(roundsMeasure.Range())
	}
	return rounds
}

// aboutDifferences explains the texts of differences.
const aboutDifferences = "The mean over the seeds of the first row minus the second, and its 95% interval by Student's t. For canaries, \"2:9\" counts those that only the first and only " +
	"the second row has memorized, and p is the p-value of the exact sign test."

// differenceTable returns a row for each difference.
func differenceTable(columns []tableColumn, differences []Difference) *Table {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c tableColumn) bool {
		return !slices.ContainsFunc(differences, func(d Difference) bool { return d.Measures[c.Name] != nil })
	})
	t := &Table{Rows: []TableRow{}, Notes: []string{}, NotesOnce: []string{}}
	t.head("setting", "")
	t.head("compared with", aboutDifferences)
	t.head("seeds", "Seeds that both rows have finished.")
	for _, c := range columns {
		t.head(c.Header, c.about())
	}
	t.head("utility", "Whether both have equal utility, because a model that has learned less memorizes less. The notes give the reason if not.")
	for i := range differences {
		d := &differences[i]
		row := TableRow{Row: d.Row, Status: Done, Texts: []string{d.Label, d.ToLabel, strconv.Itoa(len(d.Seeds))}}
		for _, c := range columns {
			row.Texts = append(row.Texts, d.text(&c))
		}
		row.Texts = append(row.Texts, d.Utility.text())
		t.Rows = append(t.Rows, row)
	}
	return t
}

// text returns a text such as "-2.3 (-5.1 to +0.4), 1:8, p 0.039", or "-2.3 (-5.1, +0.4)" if compact.
func (d *Difference) text(c *tableColumn) string {
	m := c.Measure
	e := d.Measures[m.Name]
	if e == nil {
		return "-"
	}
	if c.compact {
		return signedText(m, float64(e.Mean)) + strings.Replace(intervalText(m, e, signedText), " to ", ", ", 1)
	}
	text := signedText(m, float64(e.Mean)) + intervalText(m, e, signedText)
	if p := d.Canaries[m.Canary]; p != nil {
		text += fmt.Sprintf(", %d:%d, %s", p.More, p.Fewer, audits.PText(p.P))
	}
	return text
}

// text describes whether utility is matched.
func (u *Matching) text() string {
	switch {
	case u == nil:
		return "-"
	case u.Matched:
		return "matched"
	}
	return "not matched"
}

// unmatched returns notes about the rows whose utility is not matched.
func unmatched(differences []Difference) (notes []string) {
	for i := range differences {
		d := &differences[i]
		if u := d.Utility; u != nil && !u.Matched {
			notes = append(notes, fmt.Sprintf("%s (%s) against %s (%s): utility is not matched: %s", d.Row, d.Label, d.To, d.ToLabel, u.Reason))
		}
	}
	return notes
}
