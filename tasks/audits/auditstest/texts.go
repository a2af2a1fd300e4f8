// Package auditstest has what tests of audits share.
package auditstest

import (
	"slices"

	"coalmine/tasks/audits"
)

// Texts returns the cells of an outcome in the columns of tables, in their order.
func Texts(d *audits.Description, v audits.Outcome) (texts []string) {
	for _, m := range d.TableMeasures() {
		texts = append(texts, d.Cell(m, v))
	}
	return texts
}

// Value returns the value of an outcome in a column of CSV and Parquet, nil for null. It panics
// if there is no such column.
func Value(d *audits.Description, v audits.Outcome, column string) any {
	columns := audits.FieldColumns(d.Measures)
	return columns[slices.IndexFunc(columns, func(c audits.FieldColumn) bool { return c.Name == column })].Value(v)
}
