package results

import (
	"github.com/parquet-go/parquet-go"
)

// Value is a row's value in one of its columns: a number, 1 and 0 for true and false, or a
// text.
type Value struct {
	Column string
	Number float64
	// Text is the value in a column of texts; "" for numbers.
	Text string
}

// CellValues returns the rows of WriteRows(Cells), one for each cell, without parameters and
// without null or empty columns. Cells in training have no values of audits.
func (r *Results) CellValues() ([][]Value, error) {
	v, err := r.view()
	if err != nil {
		return nil, err
	}
	for i := range v.cells {
		v.cells[i].soFar = nil
	}
	t, err := newCellRows(v, newParameterColumns(nil, nil))
	if err != nil {
		return nil, err
	}
	return t.values(), nil
}

// Values returns the rows of the rounds, in their order, like Rounds.Write without the cell's
// columns. Null columns are omitted, and so are speeds: equal trainings have equal values.
func (c *CellRounds) Values() [][]Value {
	t := newFlatTable("round", []any{Round{}})
	t.mayLackThoseOf([]CellRounds{*c})
	var metrics []map[string]float64
	for _, round := range c.Rounds {
		round.TokensPerSecond = 0
		t.add([]any{round})
		t.lackThoseOf(&round)
		metrics = append(metrics, round.Metrics)
	}
	t.withMetrics(metrics)
	return t.values()
}

func (t *flatTable) values() [][]Value {
	t = t.finite()
	names := t.header()
	all := make([][]Value, len(t.rows))
	for i, row := range t.rows {
		for j, v := range row {
			if value, there := valueOf(names[j], v); there {
				all[i] = append(all[i], value)
			}
		}
	}
	return all
}

func valueOf(column string, v parquet.Value) (_ Value, there bool) {
	if v.IsNull() {
		return Value{}, false
	}
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			return Value{Column: column, Number: 1}, true
		}
		return Value{Column: column}, true
	case parquet.Int32, parquet.Int64:
		return Value{Column: column, Number: float64(v.Int64())}, true
	case parquet.Float, parquet.Double:
		return Value{Column: column, Number: v.Double()}, true
	default:
		return Value{Column: column, Text: v.String()}, v.String() != ""
	}
}
