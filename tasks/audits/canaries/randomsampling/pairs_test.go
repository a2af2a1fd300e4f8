package randomsampling

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// Pairs have their secret in both texts, or in the target alone.
var (
	bothTexts   = canaries.Space{Words: 13, Alphabet: canaries.Digits, Format: "pin ##", Target: "## pin"}
	targetAlone = canaries.Space{Words: 11, Alphabet: canaries.Digits, Format: "pin?", Target: "pin ##"}
)

// pairModel is an encoder-decoder of bytes that has learned nothing, and a list of canaries.
func pairModel(t *testing.T, g *taskstest.Graph, texts ...string) (model, list *taskstest.Node, tokens [][]int32) {
	t.Helper()
	model = g.Run(training.Initial, training.InitialParams{Seed: 3, Model: models.Config{
		Kind: models.LSTM, Vocabulary: text.FirstWord + text.Bytes, Embedding: 8, Units: 12, Layers: 2, Projection: models.Unprojected, Untied: true,
		Separator: text.Separator,
	}})
	var placed []population.Placement
	for i, content := range texts {
		source, target, _ := strings.Cut(content, "=>")
		pair := slices.Concat(tokensOf(source), []int32{text.Separator}, tokensOf(target))
		placed = append(placed, population.Placement{Canary: population.Canary{Number: i, Tokens: pair}, Insertions: 1})
		tokens = append(tokens, pair)
	}
	return model, auditstest.Canaries(t, g, placed), tokens
}

// costOf is -log p of all tokens after the first n, fed one by one.
func costOf(t *testing.T, s *models.Scorer, pair []int32, given int) float64 {
	t.Helper()
	states, one, sum := s.Start(1), make([]float32, 1), 0.0
	for i, token := range append([]int32{text.Begin}, pair[:len(pair)-1]...) {
		must.Do(t, s.Step(states, []int32{token}))
		if i < given {
			continue
		}
		must.Do(t, s.LogProbs(states, pair[i:i+1], one))
		sum -= float64(one[0])
	}
	return sum
}

func TestPairsRankAsBruteForceSays(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		space canaries.Space
		given int // tokens that are not scored
		texts []string
	}{
		"secret in both texts": {bothTexts, bothTexts.SourceWords(), []string{"pin 12=>12 pin", "pin 90=>90 pin", "pin 37=>37 pin"}},
		"secret in the target": {targetAlone, targetAlone.DefaultPrefix(), []string{"pin?=>pin 12", "pin?=>pin 90", "pin?=>pin 37"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			g := taskstest.NewGraph(t)
			model, list, tokens := pairModel(t, g, c.texts...)
			p := Params{Seed: 5, References: 97, Space: c.space, Prefix: c.space.DefaultPrefix(), Count: 3}
			node := g.Run(Kind, p, taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, list))
			var ranks []Rank
			must.Do(t, json.Unmarshal(node.Blob(RanksBlob), &ranks))
			task := g.Task(taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, list))
			scorer := must.Get(checkpoints.ReadScorer(t.Context(), task, audits.ModelInput))(t)
			placed := must.Get(population.ReadPlacements(t.Context(), task, audits.CanariesInput))(t)
			draws := must.Get(p.DrawReferences(t.Context(), task, text.Bytes, placed))(t)
			var references []float64
			for row := range draws {
				references = append(references, costOf(t, scorer, slices.Concat(tokens[0][:p.Prefix], row), c.given))
			}
			if len(references) != p.References {
				t.Fatalf("%d references", len(references))
			}
			for i, rank := range ranks {
				want := Rank{LogPerplexity: costOf(t, scorer, tokens[i], c.given), Rank: 1, Exact: true}
				for _, cost := range references {
					if cost <= want.LogPerplexity {
						want.Rank++
					}
				}
				if rank != want {
					t.Errorf("canary %d: %+v, by brute force %+v", i, rank, want)
				}
			}
		})
	}
}

// References hold one secret in both texts, and are drawn from all of them.
func TestReferencesOfPairsHoldOneSecret(t *testing.T) {
	t.Parallel()
	p := Params{Seed: 1, References: 95, Space: bothTexts, Prefix: 4}
	g := taskstest.NewGraph(t)
	_, list, tokens := pairModel(t, g, "pin 12=>12 pin")
	placed := []population.Placement{{Canary: population.Canary{Tokens: tokens[0]}}}
	draws := must.Get(p.DrawReferences(t.Context(), g.Task(taskstest.In(audits.CanariesInput, list)), text.Bytes, placed))(t)
	for row := range draws {
		if row[0] != row[3] || row[1] != row[4] || row[2] != text.Separator {
			t.Fatalf("reference %v repeats no secret", row)
		}
		if slices.Equal(row, tokens[0][4:]) {
			t.Fatal("a reference is the canary")
		}
	}
}
