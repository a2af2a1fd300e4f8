// Package auditstest holds helpers for tests of audits.
package auditstest

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
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

// Untrained returns a checkpoint with initial weights.
func Untrained(g *taskstest.Graph, vocabulary int) *taskstest.Node {
	return g.Run(training.Initial, training.InitialParams{Seed: 3, Model: models.Config{Kind: models.CIFGLSTM, Vocabulary: vocabulary, Embedding: 6, Units: 9}})
}

// Pair returns an inserted canary of four tokens below 40, and one held back.
func Pair() []population.Placement {
	return []population.Placement{
		{Canary: population.Canary{Tokens: []int32{7, 9, 11, 30}, Words: []string{"a", "b", "c", "d"}, UserProbability: "1/10", ExampleProbability: "1"}, Users: 3, Holders: 2, Insertions: 5},
		{Canary: population.Canary{Number: 1, Tokens: []int32{8, 39, 4, 5}, Words: []string{"e", "f", "g", "h"}, HeldBack: true}},
	}
}

// Canaries returns a node of the canaries and their places.
func Canaries(t testing.TB, g *taskstest.Graph, list []population.Placement) *taskstest.Node {
	t.Helper()
	return g.Put("canaries", map[string][]byte{population.CanariesBlob: must.Get(json.Marshal(list))(t)})
}

// Summarized decodes the blobs of an audits.Summary.
func Summarized[O, C any](t testing.TB, summary *taskstest.Node) (v O, outcomes []C) {
	t.Helper()
	must.Do(t, json.Unmarshal(summary.Blob(audits.OutcomeBlob), &v))
	must.Do(t, json.Unmarshal(summary.Blob(audits.CanaryOutcomesBlob), &outcomes))
	return v, outcomes
}

// Measured tries a task whose metrics are an Outcome O.
func Measured[O any](g *taskstest.Graph, kind tasks.Kind, params any, inputs ...taskstest.Edge) (*O, *taskstest.Node, error) {
	n, err := g.Try(kind, params, inputs...)
	if err != nil {
		return nil, nil, err
	}
	v := new(O)
	n.DecodeMetrics(v)
	return v, n, nil
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
