package probabilisticextraction

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// A translation is drawn token by token after the source, so that minus the logarithm of its
// probability is the log-perplexity of its rest, which training and evaluation compute.
func TestATranslationIsDrawnWithTheProbabilityOfItsTokens(t *testing.T) {
	t.Parallel()
	pair := slices.Concat(bytesOf("pin?"), []int32{text.Separator}, bytesOf("pin 12"))
	g := taskstest.NewGraph(t)
	model := taskstest.In(audits.ModelInput, translator(g))
	placed := auditstest.Canaries(t, g, []population.Placement{{Canary: population.Canary{Tokens: pair, InsertedTimes: 1}, Insertions: 1}})
	node := g.Run(Kind, Params{
		Groups: []Group{{Count: 1, Prefix: 9, Prefixes: []int{5, 9}}}, Sampling: models.Sampling{Temperature: 1}, Queries: 1000, Chance: 0.5,
	}, model, taskstest.In(audits.PlacementsInput, placed))
	var outcomes []CanaryOutcome
	must.Do(t, json.Unmarshal(node.Blob(audits.CanaryOutcomesBlob), &outcomes))
	scorer := must.Get(checkpoints.ReadScorer(t.Context(), g.Task(model), audits.ModelInput))(t)
	for _, after := range outcomes[0].Prefixes {
		want := costOf(t, scorer, pair, after.Prefix)
		if got := -*after.LogProbability; math.Abs(got-want) > 1e-5*want {
			t.Errorf("after %d tokens the rest costs %v nats, want %v", after.Prefix, got, want)
		}
	}
}

// translator is an untrained model of pairs of bytes.
func translator(g *taskstest.Graph) *taskstest.Node {
	return g.Run(training.Initial, training.InitialParams{Seed: 3, Model: models.Config{
		Kind: models.LSTM, Vocabulary: text.FirstWord + text.Bytes, Embedding: 8, Units: 12, Layers: 2, Projection: models.Unprojected, Untied: true,
		Separator: text.Separator,
	}})
}

func bytesOf(content string) []int32 {
	var tokens []int32
	for _, b := range []byte(content) {
		tokens = append(tokens, int32(text.FirstWord)+int32(b))
	}
	return tokens
}

// costOf is the loss of a pair less that of its first tokens, in nats. A source alone costs none.
func costOf(t *testing.T, s *models.Scorer, pair []int32, prefix int) float64 {
	t.Helper()
	whole := slices.Concat([]int32{text.Begin}, pair)
	pairs := [][]int32{whole}
	if pair[prefix-1] != text.Separator {
		pairs = append(pairs, whole[:1+prefix])
	}
	losses := must.Get(s.Losses(pairs))(t)
	rest := losses[0].Sum
	for _, first := range losses[1:] {
		rest -= first.Sum
	}
	return rest
}
