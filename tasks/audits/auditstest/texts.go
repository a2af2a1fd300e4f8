// Package auditstest has what tests of audits share.
package auditstest

import (
	"slices"

	"coalmine/tasks/audits"
)

// Texts returns the cells of a verdict in the columns of tables, in their order.
func Texts(d *audits.Description, v audits.Verdict) (texts []string) {
	for _, m := range d.TableMeasures() {
		texts = append(texts, d.Cell(m, v))
	}
	return texts
}

// Value returns the value of a verdict in a column of CSV and Parquet, nil for null. It panics
// if there is no such column.
func Value(d *audits.Description, v audits.Verdict, column string) any {
	columns := audits.FieldColumns(d.Measures)
	return columns[slices.IndexFunc(columns, func(c audits.FieldColumn) bool { return c.Name == column })].Value(v)
}
