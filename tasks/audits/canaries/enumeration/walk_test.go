package enumeration

import (
	"context"
	"math"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/text"
)

// byteScorer is an untrained byte model with weights times scale.
func byteScorer(t testing.TB, units int, scale float32) *models.Scorer {
	t.Helper()
	return auditstest.RandomScorer(t, models.Config{Kind: models.LSTM, Vocabulary: text.FirstWord + text.Bytes, Embedding: 32, Units: units, Layers: 2, Projection: models.Unprojected, Untied: true}, 1, scale)
}

// Every number of digits after a prefix, on the byte model of Carlini et al. 2019. The
// sequences per second are of one core. Half of the sequences are within the limit where
// branches are pruned, as with a canary of the median cost.
func BenchmarkEnumeration(b *testing.B) {
	tree := byteScorer(b, 200, 1).Tabulate().NewTreeScorer()
	state := must.Get(audits.PrefixState(tree.Scorer(), []int32{100, 101}))(b)
	s := newSpace(canaries.Space{Words: 6, Alphabet: canaries.Digits, Format: "######"}.Choices(text.Bytes))
	n := 0
	for b.Loop() {
		must.Do(b, s.enumerate(context.Background(), tree, audits.Span{Count: s.below[0]}, state, math.Inf(1), func(float64) { n++ }))
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "sequences/s")
	b.ReportMetric(float64(tree.Work().Advanced)/b.Elapsed().Seconds(), "states/s")
	b.ReportMetric(tree.Work().FLOPs/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
