package results

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/tasks/audits"
)

// unlisted are columns that tables for people omit: constant, or part of the label.
var unlisted = []string{"run", "experiment", "axes"}

// shares are columns of means and differences in the unit of the measure; counted are columns with
// fractions of canaries.
var (
	shares  = []string{"mean", "sd", "low", "high"}
	counted = []string{"pooled_share", "pooled_low", "pooled_high"}
)

// rowKeys are the columns that together identify a row, by table name. A screen joins them into one column.
var rowKeys = map[string][]string{
	"canaries": {"cell", "words"}, "attacks": {"cell", "attack"}, "attacked_users": {"cell", "attack", "user"},
	"membership": {"cell", "attack", "of"}, "means": {"row", "measure"}, "differences": {"row", "to", "measure"}, "numbers": {"cell", "path"}, "roundRow": {"cell", "round"},
}

// writeListed writes a table for people to a file.
func writeListed(t *flatTable, w io.Writer) error { return (*Terminal)(nil).writeListed(t, w) }

// writeListed writes a table for people. In a file the columns are aligned.
func (s *Terminal) writeListed(t *flatTable, w io.Writer) error {
	if why := noRows[t.schema.Name()]; len(t.rows) == 0 && why != "" {
		_, err := io.WriteString(w, why+"\n")
		return err
	}
	header, rows := t.listed()
	if s != nil {
		header, rows = joinColumns(header, rows, rowKeys[t.schema.Name()])
	}
	var b strings.Builder
	s.table(&b, header, rows)
	for _, text := range t.warnings {
		s.paragraph(&b, text)
	}
	if s == nil { // a screen does this as it folds texts
		w = readable.Writer(w)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// joinColumns joins the texts of some columns into one, which comes first.
func joinColumns(header []string, rows [][]string, names []string) ([]string, [][]string) {
	join := func(row []string) []string {
		first, others := []string{}, []string{""}
		for c, text := range row {
			if slices.Contains(names, header[c]) {
				first = append(first, text)
			} else {
				others = append(others, text)
			}
		}
		others[0] = strings.Join(first, ", ")
		return others
	}
	return join(header), lists.Map(rows, join)
}

// listed returns the columns that are not empty in all rows. Fractions are in percent, as in the table of
// cells.
func (t *flatTable) listed() (header []string, rows [][]string) {
	header = t.header()
	rows = make([][]string, len(t.rows))
	percents := percentMeasures()
	for i, row := range t.rows {
		percent := percents[measureOf(header, row)]
		for c, name := range header {
			inPercent := percent && slices.Contains(shares, name) || slices.Contains(counted, name)
			rows[i] = append(rows[i], listedValue(row[c], inPercent))
			if percent && name == "measure" {
				rows[i][c] += " %"
			}
		}
	}
	for c := len(header) - 1; c >= 0; c-- {
		if silent(header[c], rows, c) || slices.Contains(unlisted, header[c]) {
			header = slices.Delete(header, c, c+1)
			for i := range rows {
				rows[i] = slices.Delete(rows[i], c, c+1)
			}
		} else if slices.Contains(counted, header[c]) {
			header[c] += " %"
		}
	}
	return header, rows
}

// noRows explains how to get rows for an empty table, by name.
var noRows = map[string]string{
	"canaries":       "no canaries: no finished cell inserted canaries; the block canaries does",
	"attacks":        "no attacks on updates: no finished cell has audit.deanonymization, linking, matching, cross_modal or attributes",
	"attacked_users": "no attacked users: no finished cell has audit.deanonymization: {users: true}",
	"membership":     "no attacks on membership: no finished cell has audit.membership",
	"means":          "no means: no finished cells differ only in the seed; grid.replicates: 5 trains every cell with five seeds",
	"differences":    "no differences: no two rows of replicates have finished cells and differ in one axis; grid.replicates: 5 trains every cell with five seeds",
	"roundRow":       "no rounds: no training has finished a round with metrics",
}

// percentMeasures returns the measures that tables print in percent.
func percentMeasures() map[string]bool {
	names := map[string]bool{}
	for _, m := range measures() {
		names[m.Name] = m.Scale == audits.Percent
	}
	return names
}

// measureOf returns the measure of a row, or "" if it has several.
func measureOf(header []string, row parquet.Row) string {
	if c := slices.Index(header, "measure"); c >= 0 {
		return row[c].String()
	}
	return ""
}

// listedValue formats a value with at most five digits. It returns "" for null.
func listedValue(v parquet.Value, percent bool) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind() != parquet.Double:
		return csvValue(v)
	case isInfinite(v):
		return numbers.Decimal(v.Double(), 0)
	}
	x := v.Double()
	if percent {
		x *= 100
	}
	return strconv.FormatFloat(x, 'g', 5, 64)
}
