package results

import (
	"slices"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
)

// atBaseline is the column that is true for a model no better than the frequencies of its data. Rows of
// cells have it among the measures of utility.
const atBaseline = "at_baseline"

// baselineRow is the column atBaseline at the end of rows about parts of cells or about several cells. It
// is null if no model of the row was compared with a baseline.
type baselineRow struct {
	AtBaseline *bool `parquet:"at_baseline" doc:"whether the model, or one of several, is no better than word or class frequencies"`
}

// baseline returns the value of atBaseline for a cell.
func (v *viewCell) baseline() (row baselineRow) {
	for place, outcome := range v.outcomes {
		if at, known := ofAudits().outcomes[place].number(outcome, atBaseline); known {
			row.AtBaseline = new(at == 1)
		}
	}
	return row
}

// baseline returns the value of atBaseline for rows of replicates: true if the model of some seed is at its baseline.
func baseline(rows ...*viewRow) (of baselineRow) {
	for _, r := range rows {
		for _, seed := range r.Seeds {
			if of = r.done[seed].baseline().or(of); of.AtBaseline != nil && *of.AtBaseline {
				return of
			}
		}
	}
	return of
}

// or returns the row, or other if its value is unknown.
func (r baselineRow) or(other baselineRow) baselineRow {
	if r.AtBaseline == nil {
		return other
	}
	return r
}

// silent reports whether a column has no information: all rows are empty, or it is atBaseline and no model
// is at its baseline.
func silent(name string, rows [][]string, c int) bool {
	return !slices.ContainsFunc(rows, func(row []string) bool { return row[c] != "" && (name != atBaseline || row[c] == "true") })
}

// atBaseline reports whether the model of a seed is no better than the frequencies of its data.
func (r *viewRow) atBaseline() bool {
	at := baseline(r).AtBaseline
	return at != nil && *at
}

// isMarked reports whether the outcome of an audit, by its index, may mislead without its note.
func isMarked(place int, outcome audits.Outcome) bool {
	marked := all.Audits()[place].Marked
	return marked != nil && outcome != nil && marked(outcome)
}
