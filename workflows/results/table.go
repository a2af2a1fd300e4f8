package results

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/selection"
)

// Table holds the results for people: the columns of the papers for every cell.
type Table struct {
	// Legends are the nonempty Abouts, each after the header of its column.
	Legends []string `json:"legends"`
	// Header holds the column headers; the first column holds the labels.
	Header []string `json:"header"`
	// Abouts explains each column. It is "" if the header suffices.
	Abouts []string   `json:"abouts"`
	Rows   []TableRow `json:"rows"`
	// Notes explain the numbers, and name deviations from the experiment.
	Notes []string `json:"notes"`
	// NotesOnce are Notes, but a note about all cells or rows occurs once.
	NotesOnce []string `json:"notes_once"`
	// Differences compares rows of replicates. It is nil without replicates.
	Differences *Table `json:"differences,omitempty"`
	// Best names the setting that memorizes least at equal utility, or is "".
	Best string `json:"best,omitempty"`
	// of holds the number of candidate canaries common to all rows of a compact table, by header.
	of map[string]string
}

// TableRow is a cell, or a row of replicates, whose Cells are the finished ones. The cells in training of a
// row of replicates follow it, with the name of the row.
type TableRow struct {
	Cell   string   `json:"cell"`
	Row    string   `json:"row,omitempty"`
	Cells  []string `json:"cells,omitempty"`
	Status string   `json:"status"`
	// SoFar is the round to which the texts of a cell in training refer.
	SoFar string   `json:"so_far,omitempty"`
	Texts []string `json:"texts"`
}

// Table returns the results for people.
func (r *Results) Table() (*Table, error) {
	v, err := r.view()
	if err != nil {
		return nil, err
	}
	return v.table(), nil
}

// Of returns the results of one cell, as if the run had no other. The error wraps storage.ErrNotFound if
// there is no such cell.
func (r *Results) Of(cell string) (*Results, error) {
	if c := lists.Find(r.Cells, func(c *Cell) bool { return c.Cell == cell }); c != nil {
		alone := *c
		alone.Row = nil
		return &Results{Run: r.Run, Experiment: r.Experiment, Cells: []Cell{alone}, Unreadable: r.Unreadable}, nil
	}
	return nil, fmt.Errorf("run %s has no cell %.40q: %w", r.Run, cell, storage.ErrNotFound)
}

// tableColumn is a column: a measure of the audit at an index of all.Audits.
type tableColumn struct {
	place int
	*audits.Measure
	// compact omits intervals and tests in the texts of rows. of is the number of candidate canaries if it
	// is equal for all rows.
	compact bool
	of      string
}

// columns returns the columns with values for some cell. It starts with those of Table 1 of Thakkar et al. 2020.
func (v *view) columns() []tableColumn {
	var first, others []tableColumn
	for place, d := range all.Audits() {
		if !v.has(place) {
			continue
		}
		for _, m := range d.TableMeasures() {
			switch one := (tableColumn{place: place, Measure: m}); {
			case m.Optional && !v.hasText(one):
			case m.Leading:
				first = append(first, one)
			default:
				others = append(others, one)
			}
		}
	}
	return append(first, others...)
}

func (v *view) table() *Table {
	t := v.wholeTable()
	t.keep(v.chosen)
	t.addLegends()
	return t
}

func (t *Table) addLegends() {
	t.Legends = []string{}
	for i, about := range t.Abouts {
		if about != "" {
			t.Legends = append(t.Legends, t.Header[i]+": "+about)
		}
	}
	if t.Differences != nil {
		t.Differences.addLegends()
	}
}

func (v *view) wholeTable() *Table {
	if len(v.rows) > 0 {
		return v.rowTable()
	}
	columns := v.columns()
	t := &Table{Rows: []TableRow{}}
	t.head("setting", "")
	t.note(v, v.notes())
	for _, c := range columns {
		t.head(c.Header, c.about())
	}
	if len(columns) == 0 {
		t.head("status", "")
	}
	for i := range v.cells {
		t.Rows = append(t.Rows, v.cells[i].row(columns))
	}
	if v.gated() {
		t.addGates(func(i int) string { return cmp.Or(v.cells[i].gate(), "-") })
	}
	return t
}

// head adds the header of a column.
func (t *Table) head(header, about string) {
	t.Header, t.Abouts = append(t.Header, header), append(t.Abouts, about)
}

// about explains the column: its meaning, and the direction of better numbers.
func (c *tableColumn) about() string { return sentence(c.Measure) }

// addGates adds the column of the gates.
func (t *Table) addGates(text func(row int) string) {
	t.head(gateHeader, "Whether the model is within the limits of audit.fail_if; the notes name the exceeded limits.")
	for i := range t.Rows {
		t.Rows[i].Texts = append(t.Rows[i].Texts, text(i))
	}
}

// cell returns the text of an outcome.
func (c *tableColumn) cell(outcome audits.Outcome) string {
	return all.Audits()[c.place].Cell(c.Measure, outcome)
}

// text returns the text of an outcome, with a mark if it may mislead.
func (c *tableColumn) text(outcome audits.Outcome) string {
	text := c.cell(outcome)
	if c.Leading && text != "" && isMarked(c.place, outcome) {
		text += " " + audits.Mark
	}
	return text
}

// row returns a text for each column. Without outcomes it contains the cell's status.
func (v *viewCell) row(columns []tableColumn) TableRow {
	row := TableRow{Cell: v.Cell.Cell, Status: v.Status, Texts: []string{v.Label}}
	if v.soFar != nil {
		row.SoFar = v.Interim.String()
		row.Texts[0] += " (" + row.SoFar + ")"
	}
	if len(columns) == 0 {
		row.Texts = append(row.Texts, v.Status)
	}
	for _, column := range columns {
		text := ""
		switch outcome := v.shown(column.place); {
		case outcome != nil:
			text = column.text(outcome)
		case v.Report == nil && len(row.Texts) == 1:
			text = v.Status
		case !column.Leading:
			text = "-"
		}
		row.Texts = append(row.Texts, text)
	}
	return row
}

func (t *Table) note(v *view, notes []note) {
	t.Notes, t.NotesOnce = each(notes), v.once(notes)
	if text := v.unlabelled(); text != "" {
		t.Notes, t.NotesOnce = append(t.Notes, text), append(t.NotesOnce, text)
	}
}

// unlabelledFields is the maximum number of fields in a note.
const unlabelledFields = 8

// unlabelled returns a note that names the fields in which rows differ but which their labels omit.
func (v *view) unlabelled() string {
	n := len(v.Unlabelled)
	if n == 0 {
		return ""
	}
	text := "cells also differ in " + readable.Text(strings.Join(v.Unlabelled[:min(n, unlabelledFields)], ", "))
	if n > unlabelledFields {
		text += fmt.Sprintf(" and %s", readable.Count(n-unlabelledFields, "more field"))
	}
	return text + ", which labels do not name (coalmine show RUN prints their values)"
}

// allNotes returns the notes of the cells, or of the rows of replicates.
func (v *view) allNotes() []note {
	if len(v.rows) > 0 {
		return v.rowNotes()
	}
	return v.notes()
}

// notes returns the notes of the cells. They explain outcomes, and name deviations from the experiment.
func (v *view) notes() (notes []note) {
	for i := range v.cells {
		notes = append(notes, v.cells[i].noted()...)
		if v.Unreadable != "" {
			notes = append(notes, note{name: v.cells[i].Cell.Cell, label: v.cells[i].Label, text: ": its experiment cannot be read: " + v.Unreadable, done: v.cells[i].Report != nil})
		}
	}
	return notes
}

// noted returns the notes of a cell with its name.
func (v *viewCell) noted() (notes []note) {
	for _, text := range v.notes() {
		notes = append(notes, note{name: v.Cell.Cell, label: v.Label, text: text, done: v.Report != nil})
	}
	return notes
}

func (v *viewCell) notes() []string {
	var notes []string
	for _, outcome := range v.measured() {
		if n, ok := outcome.(audits.Noter); ok {
			if note := n.Note(&v.decoded); note != "" {
				notes = append(notes, ": "+note)
			}
		}
	}
	if v.Report != nil && v.Budget != nil && v.Budget.Stopped {
		notes = append(notes, fmt.Sprintf(" stopped after %s: its privacy budget is epsilon_proved %g at delta %g", readable.Count(v.Training.Rounds, v.roundUnit()), v.Budget.Epsilon, v.Budget.Delta))
	}
	if v.Report != nil {
		for _, f := range v.Faults {
			notes = append(notes, ": "+f.String())
		}
	}
	notes = appendNote(notes, v.Batches)
	if v.Report != nil {
		notes = append(notes, v.reportNotes()...)
	}
	for _, u := range v.Undetected {
		notes = append(notes, ": "+u.String())
	}
	if v.unknownUtility() {
		notes = append(notes, ": utility is not measured (set audit.utility: true), so audits that find nothing do not show that the training is safe: the model may have learned little")
	}
	notes = appendNote(notes, v.Ranking)
	notes = appendNote(notes, v.ReportedRounds)
	if v.Unmeasured {
		notes = append(notes, ": the model is not measured, because the experiment has no audit; add one in the block audit")
	}
	return append(notes, v.endNotes()...)
}

// reportNotes describes the data and the end of a training that has a report.
func (v *viewCell) reportNotes() []string {
	notes := append(v.canaryShare(), v.noneInserted()...)
	notes = appendNote(notes, v.Skipped)
	notes = appendNote(notes, v.Selection)
	notes = appendNote(notes, v.Devices)
	notes = appendNote(notes, v.Sanitized)
	notes = appendNote(notes, v.Disagreement)
	notes = appendNote(notes, v.Stopping)
	if v.Row == nil {
		notes = appendNote(notes, v.StopAt)
	}
	return notes
}

// endNotes describes gates, failures and losses.
func (v *viewCell) endNotes() (notes []string) {
	for _, b := range v.Breaches {
		notes = append(notes, failedGate+b)
	}
	for _, u := range v.Unjudged {
		notes = append(notes, ": not judged: "+u)
	}
	for _, e := range v.Errors {
		notes = append(notes, " failed: "+readable.Lines(e))
	}
	if v.Lost != "" {
		notes = append(notes, ": "+v.Lost)
	}
	if len(v.Thresholds) > 0 {
		notes = append(notes, ": data.select would leave with "+selection.Leaves(v.Thresholds))
	}
	return notes
}

// appendNote appends the text of a part of the results if the part is not nil.
func appendNote[T any, P interface {
	*T
	fmt.Stringer
}](notes []string, part P) []string {
	if part == nil {
		return notes
	}
	return append(notes, ": "+part.String())
}

// largeShare is the fraction of canaries among training examples above which results tell little about the
// model's data.
const largeShare = 0.1

// canaryShare returns a note if canaries are a large fraction of the training data.
func (v *viewCell) canaryShare() []string {
	t := &v.Report.Training
	share := float64(t.ReplacedExamples) / float64(max(1, t.Examples))
	if share <= largeShare {
		return nil
	}
	return []string{fmt.Sprintf(": canaries are %s of the training examples, more than %g%%: utility and memorization are those of a training on canaries; lower their probabilities or insertions", readable.Share(share), 100*largeShare)}
}

// noneInserted returns a note if the cell has canaries for its training data and none was inserted.
func (v *viewCell) noneInserted() []string {
	drawn := lists.Count(v.decoded.Canaries, func(c audits.Canary) bool { return c.Role == audits.NeverInserted })
	if drawn == 0 || slices.ContainsFunc(v.decoded.Canaries, func(c audits.Canary) bool { return c.Role == audits.Inserted }) {
		return nil
	}
	return []string{fmt.Sprintf(": none of the canaries (%d) is in the training data, so they measure no memorization; raise their probabilities or insertions", drawn)}
}

// unknownUtility reports whether audits of canaries or members, which need a model that has learned, found nothing in
// a model of which no audit measured the utility.
func (v *viewCell) unknownUtility() bool {
	for d := range v.measured() {
		if d.Utility != nil {
			return false
		}
	}
	return slices.ContainsFunc(v.Undetected, func(u Undetected) bool {
		return len(v.decoded.Canaries) > 0 || strings.HasPrefix(u.Statement, "membership")
	})
}

func (t *Table) texts() [][]string {
	return lists.Map(t.Rows, func(row TableRow) []string { return row.Texts })
}

// writeAligned writes a header, a rule and rows in columns.
func writeAligned(b *strings.Builder, header []string, rows [][]string) {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	writeRow(b, widths, header)
	writeRow(b, widths, lists.Map(widths, func(width int) string { return strings.Repeat("-", width) }))
	for _, row := range rows {
		writeRow(b, widths, row)
	}
}

func writeRow(b *strings.Builder, widths []int, row []string) {
	for i, text := range row {
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(text)
		if i+1 < len(row) {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)))
		}
	}
	b.WriteByte('\n')
}
