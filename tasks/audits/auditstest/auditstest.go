// Package auditstest holds helpers for tests of audits.
package auditstest

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/audits"
)

// RandomScorer returns the scorer of a model with initial weights times scale. At 0 all sequences cost the
// same, at 4 predictions are far from uniform.
func RandomScorer(t testing.TB, config models.Config, seed uint64, scale float32) *models.Scorer {
	t.Helper()
	m := must.Get(models.New(config))(t)
	params := m.Init(rand.New(rand.NewPCG(seed, 1)))
	for i := range params {
		params[i] *= scale
	}
	return must.Get(m.NewScorer(params))(t)
}

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

// CheckLimit checks the breaches of an audit's first limit, a number, by an outcome: want maps the value of
// the limit to them. Without a limit nothing is judged. The outcome nothing, without measurements, breaches
// every limit.
func CheckLimit(t *testing.T, d *audits.Description, v, nothing audits.Outcome, want map[float64][]string) {
	t.Helper()
	breaches := func(v audits.Outcome, limit float64) []string {
		return d.Limits[0].Breaches(&audits.Cell{Outcomes: []audits.Outcome{v}}, &limit)
	}
	for limit, want := range want {
		if got := breaches(v, limit); !slices.Equal(got, want) {
			t.Errorf("limit %g: %q, want %q", limit, got, want)
		}
	}
	if got := d.GivenLimits(d.NewLimits()); got != nil {
		t.Errorf("without a limit %v is judged", got)
	}
	if got := breaches(nothing, 1e9); len(got) != 1 || !strings.Contains(got[0], "has no value") {
		t.Errorf("without anything measured: %q", got)
	}
}
