package skewnormal

import (
	"math/rand/v2"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// One audit of the byte model of Carlini et al. 2019 with the default references and
// bootstrap, on one core: the cost of exposure at every epoch.
func BenchmarkAudit(b *testing.B) {
	m := must.Get(models.New(models.Config{Kind: models.LSTM, Vocabulary: text.FirstWord + text.Bytes, Embedding: 32, Units: 200, Layers: 2, Projection: models.Unprojected, Untied: true}))(b)
	scorer := must.Get(m.NewScorer(m.Init(rand.New(rand.NewPCG(1, 1)))))(b)
	p := Params{Seed: 1, References: 10_000, Bootstrap: 100, Space: canaries.Space{Words: 24, Alphabet: canaries.Digits, Format: "my number is ###-###-###"}, Prefix: 13}
	own := []population.Placement{{Canary: population.Canary{Tokens: make([]int32, 24)}}}
	for i := range own[0].Tokens {
		own[0].Tokens[i] = text.FirstWord + int32(p.Format[i])
	}
	references := must.Get(p.draw(b.Context(), nil, text.Bytes, own))(b)
	for b.Loop() {
		e := &estimator{&p, scorer.Tabulate().NewTreeScorer(), references, own, make([]Estimate, 1)}
		must.Do(b, e.estimate(b.Context(), audits.ByPrefix(own, p.Prefix)[0]))
	}
}
