package randomsampling

import (
	"math"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

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
func TestReferencesOfWholeWordsAreTheSequencesThatAreNoCanary(t *testing.T) {
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
func TestReferencesOfOtherWordsOfTheSameBytesAreOthers(t *testing.T) {
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
