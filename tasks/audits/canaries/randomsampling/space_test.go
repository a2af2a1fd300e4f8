package randomsampling

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// pin is a space with fixed bytes before, between and after its random ones.
var pin = canaries.Space{Words: 9, Alphabet: canaries.Digits, Format: "no ##-#.!"}

func tokensOf(content string) []int32 {
	var tokens []int32
	for i := range len(content) {
		tokens = append(tokens, text.FirstWord+int32(content[i]))
	}
	return tokens
}

func TestReferencesComeFromTheSpaceOfTheCanaries(t *testing.T) {
	t.Parallel()
	choices := pin.Choices(text.Bytes)[3:]
	excluded := [][]int32{tokensOf("12-3.!"), tokensOf("00-0.!")}
	seen := map[string]bool{}
	drawn := drawReferences(1, 20_000, len(choices), excluded, pin.Sampler(choices, 3))
	for i := range drawn.Count() {
		row := drawn.row(i)
		if contains(excluded, row) {
			t.Fatalf("reference %d is a canary", i)
		}
		var content []byte
		for j, token := range row {
			if !slices.Contains(choices[j], token) {
				t.Fatalf("reference %d has token %d at %d", i, token, j)
			}
			content = append(content, byte(token-text.FirstWord))
		}
		seen[string(content)] = true
	}
	// One of the 998 is missed with probability 2e-6 at most.
	if len(seen) != 998 {
		t.Errorf("%d different references of the 998 that there are", len(seen))
	}
}

// Were more references drawn than there are sequences, their number would promise an
// exposure that no canary can have.
func TestReferenceSetLargerThanItsSpaceIsRejected(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	model := auditstest.Untrained(g, text.FirstWord+text.Bytes)
	given := auditstest.Canaries(t, g, []population.Placement{{Canary: population.Canary{Tokens: tokensOf("no 12-3.!")}}})
	rank := func(references int, space canaries.Space, prefix int) error {
		_, err := g.Try(Kind, Params{References: references, Space: space, Prefix: prefix, Count: 1},
			taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, given))
		return err
	}
	if err := rank(999, pin, 3); err != nil {
		t.Errorf("999 references of the 999 that there are: %v", err)
	}
	if err := rank(1000, pin, 3); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "1000 references and 1 canaries, which differ after the prefix; expected at most the 1000 sequences") {
		t.Errorf("1000 references: %v", err)
	}
	if err := rank(256, canaries.Space{Words: 9}, 8); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "256 references and 1 canaries") {
		t.Errorf("256 references of 255 ordinary words beside the canary: %v", err)
	}
	if err := rank(10, pin, 9); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "a prefix of 9 leaves nothing") {
		t.Errorf("a prefix of all bytes: %v", err)
	}
	if err := rank(10, canaries.Space{Words: 9, Alphabet: "hex"}, 3); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), `alphabet "hex"`) {
		t.Errorf("an unknown alphabet: %v", err)
	}
}

// A canary of whole words is ranked among sequences of whole words. With 4,000 references the share
// that is as likely as the canary lies within five standard errors of that of all 125 sequences; a
// right program fails with probability below 3 x 6e-7, and the seed is fixed.
func TestWholeWordsAreRankedAmongAllSequencesOfWords(t *testing.T) {
	t.Parallel()
	words := []string{"red", "tan", "sea", "ten", "rot"}
	space := canaries.Space{Words: 14, Alphabet: canaries.Listed, Symbols: "redtanseatenrot", SymbolBytes: 3, Format: "is # # #"}
	config := models.Config{Kind: models.LSTM, Vocabulary: text.FirstWord + text.Bytes, Embedding: 6, Units: 8, Untied: true, Projection: models.Unprojected}
	scorer := auditstest.RandomScorer(t, config, 5, 8)
	var all [][]int32
	for _, a := range words {
		for _, b := range words {
			for _, c := range words {
				all = append(all, tokensOf(a+" "+b+" "+c))
			}
		}
	}
	tree, prefix := scorer.Tabulate().NewTreeScorer(), tokensOf("is ")
	state, err := audits.PrefixState(tree.Scorer(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	costs := make([]float64, len(all))
	for i, sequence := range all {
		if costs[i], err = audits.LogPerplexity(t.Context(), tree, state, sequence); err != nil {
			t.Fatal(err)
		}
	}
	var list []population.Placement
	for _, i := range []int{7, 31, 90} {
		list = append(list, population.Placement{Canary: population.Canary{Tokens: append(tokensOf("is "), all[i]...)}})
	}
	p := Params{Space: space, Prefix: 3, References: 4000}
	choices := space.Choices(text.Bytes)[3:]
	sample := newSampling(&p, list, scorer.Tabulate(), drawReferences(2, p.References, len(choices), nil, p.Sampler(choices, 3)).nested(), nil)
	for n, i := range []int{7, 31, 90} {
		likelier := 0
		for _, cost := range costs {
			if cost <= costs[i] {
				likelier++
			}
		}
		rank := must.Get(sample.Rank(t.Context(), n))(t)
		if math.Abs(rank.LogPerplexity-costs[i]) > 1e-9 {
			t.Errorf("canary %d costs %v, by its own %v", n, rank.LogPerplexity, costs[i])
		}
		share := float64(likelier) / float64(len(all))
		found := float64(rank.Rank-1) / float64(p.References)
		if deviation := math.Sqrt(share * (1 - share) / float64(p.References)); math.Abs(found-share) > 5*deviation {
			t.Errorf("canary %d: a share of %.4f of the references is as likely, of all sequences %.4f", n, found, share)
		}
	}
}

// 28 references and 8 canaries are all 36 sequences of a space, so that the references are those that
// are left: none is a canary, and none consists of other words.
func TestReferencesOfWholeWordsExcludeCanaries(t *testing.T) {
	t.Parallel()
	space := canaries.Space{Words: 9, Alphabet: canaries.Listed, Symbols: "oneoaktoeantnotern", SymbolBytes: 3, Format: "a # #"}
	var list []population.Placement
	for _, text := range []string{"one oak", "oak one", "toe ant", "ern ern", "not not", "ant toe", "one ern", "oak oak"} {
		list = append(list, population.Placement{Canary: population.Canary{Tokens: tokensOf("a " + text)}})
	}
	v := &text.Vocabulary{Words: append(text.Specials(), text.ByteLevel.Scheme().Symbols...)}
	p := Params{Space: space, Prefix: 2, References: 28, Seed: 4}
	must.Get(p.DrawIn(v, list))(t)
	p.References++
	if _, err := p.DrawIn(v, list); err == nil {
		t.Error("29 references of the 28 sequences that are no canary are drawn")
	}
	p.References--
	seen := map[string]bool{}
	for seed := range uint64(30) {
		p.Seed = seed
		drawn := must.Get(p.DrawIn(v, list))(t)
		for row := range drawn {
			var content []byte
			for _, token := range row {
				content = append(content, byte(token-text.FirstWord))
			}
			seen[string(content)] = true
		}
	}
	// 840 draws miss one of the 28 with probability 28 x (27/28)^840 < 2e-12.
	if len(seen) != 28 || seen["oak one"] || !seen["one one"] {
		t.Errorf("%d different references: %v", len(seen), seen)
	}
}

// Two spaces whose words have the same bytes at each place have references of their own.
func TestReferencesDependOnWordsNotBytes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	model := auditstest.Untrained(g, text.FirstWord+text.Bytes)
	given := auditstest.Canaries(t, g, []population.Placement{{Canary: population.Canary{Tokens: tokensOf("ad ad")}}})
	draw := func(symbols string) string {
		task := g.Task(taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, given))
		space := canaries.Space{Words: 5, Alphabet: canaries.Listed, Symbols: symbols, SymbolBytes: 2, Format: "# #"}
		sets := must.Get(readReferences(t.Context(), task, &Params{Space: space, Prefix: 3, References: 1}, text.Bytes, nil))(t)
		return string([]byte{byte(sets[0].row(0)[0] - text.FirstWord), byte(sets[0].row(0)[1] - text.FirstWord)})
	}
	if a, b := draw("adbc"), draw("acbd"); (a != "ad" && a != "bc") || (b != "ac" && b != "bd") {
		t.Errorf("references %q of ad and bc, %q of ac and bd", a, b)
	}
}

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

func TestPairRanksMatchBruteForce(t *testing.T) {
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
func TestReferencesOfPairsRepeatOneSecret(t *testing.T) {
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
