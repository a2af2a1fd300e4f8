package beamsearch

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// testScorer is an untrained model with weights large enough that its
// predictions are far from uniform.
func testScorer(t *testing.T, vocabulary int, seed uint64) *models.Scorer {
	t.Helper()
	m := must.Get(models.New(models.Config{Kind: models.CIFGLSTM, Vocabulary: vocabulary, Embedding: 7, Units: 9}))(t)
	params := m.Init(rand.New(rand.NewPCG(seed, 1)))
	for i := range params {
		params[i] *= 4
	}
	return must.Get(m.NewScorer(params))(t)
}

func treeOf(t *testing.T, s *models.Scorer, prefix []int32, choices [][]int32) *search.Tree {
	t.Helper()
	return must.Get(search.NewTree(s, prefix, choices))(t)
}

// cost is the log-perplexity of words after a prefix, one word at a time.
func cost(t *testing.T, s *models.Scorer, prefix, words []int32) float64 {
	t.Helper()
	state := must.Get(audits.PrefixState(s, prefix))(t)
	sum, logProb := 0.0, make([]float32, 1)
	for _, w := range words {
		must.Do(t, s.LogProbs(state, []int32{w}, logProb))
		sum += audits.Surprisal(logProb[0])
		must.Do(t, s.Step(state, []int32{w}))
	}
	return sum
}

func TestWideBeamSearchFindsTheBestSequence(t *testing.T) {
	t.Parallel()
	const vocabulary = 14
	for seed := range uint64(5) {
		s := testScorer(t, vocabulary, seed)
		prefix := []int32{text.FirstWord + 2}
		best, err := beamSearch(treeOf(t, s, prefix, canaries.Space{Words: 3}.Choices(10)), 100) // 10 words, 100 pairs: nothing is cut
		if err != nil {
			t.Fatal(err)
		}
		wantCost, want := math.Inf(1), []int32(nil)
		for i := range int32(1000) {
			words := []int32{4 + i/100, 4 + i/10%10, 4 + i%10}
			if c := cost(t, s, prefix, words); c < wantCost {
				wantCost, want = c, words
			}
		}
		if !slices.Equal(best.words, want) || best.cost != wantCost {
			t.Errorf("seed %d: found %v at %v, brute force %v at %v", seed, best.words, best.cost, want, wantCost)
		}
	}
}

func TestNarrowBeamIsGreedy(t *testing.T) {
	t.Parallel()
	s := testScorer(t, 14, 3)
	prefix := []int32{5}
	best := must.Get(beamSearch(treeOf(t, s, prefix, canaries.Space{Words: 3}.Choices(10)), 1))(t)
	greedy := append([]int32(nil), prefix...)
	for range 3 {
		state := must.Get(audits.PrefixState(s, greedy))(t)
		row := make([]float32, 14)
		must.Do(t, s.LogProbRows(state, row))
		word := int32(text.FirstWord)
		for w := word; int(w) < len(row); w++ {
			if row[w] > row[word] {
				word = w
			}
		}
		greedy = append(greedy, word)
	}
	if !slices.Equal(best.words, greedy[1:]) {
		t.Errorf("width 1 found %v, step by step the best words are %v", best.words, greedy[1:])
	}
}

func TestBeamSearchFindsTheBestSequenceOfTheSpace(t *testing.T) {
	t.Parallel()
	pin := canaries.Space{Words: 9, Alphabet: canaries.Digits, Format: "no ##-#.!"}
	tokensOf := func(content string) (tokens []int32) {
		for i := range len(content) {
			tokens = append(tokens, text.FirstWord+int32(content[i]))
		}
		return tokens
	}
	s := testScorer(t, text.FirstWord+text.Bytes, 4)
	prefix := tokensOf("no ")
	best, err := beamSearch(treeOf(t, s, prefix, pin.Choices(text.Bytes)[3:]), 1000) // nothing is cut
	if err != nil {
		t.Fatal(err)
	}
	wantCost, want := math.Inf(1), ""
	for i := range 1000 {
		text := string([]byte{'0' + byte(i/100), '0' + byte(i/10%10), '-', '0' + byte(i%10), '.', '!'})
		if c := cost(t, s, prefix, tokensOf(text)); c < wantCost {
			wantCost, want = c, text
		}
	}
	if !slices.Equal(best.words, tokensOf(want)) || best.cost != wantCost {
		t.Errorf("found %v at %v, brute force %q at %v", best.words, best.cost, want, wantCost)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	model, given := auditstest.Untrained(g, 40), auditstest.Canaries(t, g, auditstest.Pair())
	beam := g.Run(Kind, Params{Width: 3, Space: canaries.Space{Words: 4}, Prefix: 1, Count: 2},
		taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, given))
	taskstest.Golden(t, beam)
	summary := g.Run(Summary, SummaryParams{Parts: 1, Width: 3}, taskstest.In(audits.PlacementsInput, given),
		taskstest.In(population.PartsInput, g.Put("parts", map[string][]byte{text.VocabularyBlob: []byte(vocabularyOf(40))})), taskstest.In(tasks.PartInput(0), beam))
	taskstest.Golden(t, summary)
	v, outcomes := auditstest.Summarized[Outcome, CanaryOutcome](t, summary)
	var found []Extraction
	must.Do(t, json.Unmarshal(beam.Blob(ExtractionsBlob), &found))
	if len(outcomes) != 2 || v.Of != 1 || v.Width != 3 || (v.Memorized == 1) != *outcomes[0].Found {
		t.Errorf("outcome %+v of outcomes %+v", v, outcomes)
	}
	for i, o := range outcomes {
		for j, word := range o.Best {
			if want := fmt.Sprintf("w%d", found[i].Best[j]); word != want {
				t.Errorf("canary %d: word %d of the best is %s, want %s", i, j, word, want)
			}
		}
	}
}

// vocabularyOf has the special tokens, and a word for each other token.
func vocabularyOf(tokens int) string {
	content := "<pad>\n<unk>\n<begin>\n<end>\n"
	for i := text.FirstWord; i < tokens; i++ {
		content += fmt.Sprintf("w%d\n", i)
	}
	return content
}

// The canary's own cost is the cost that the search would give it, to the last bit, and
// never less than the best sequence's if no sequence was cut.
func TestExtractReportsCostOfCanaryAndBest(t *testing.T) {
	t.Parallel()
	s := testScorer(t, 14, 6)
	prefix, choices := []int32{5}, canaries.Space{Words: 3}.Choices(10)
	best, err := beamSearch(treeOf(t, s, prefix, choices), 1000) // nothing is cut
	if err != nil {
		t.Fatal(err)
	}
	for _, suffix := range [][]int32{best.words, {4, 9, 13}, {8, 8, 8}} {
		e := must.Get(extract(s, append(prefix[:1:1], suffix...), 1, choices, 1000))(t)
		if e.Found != slices.Equal(suffix, best.words) || !slices.Equal(e.Best, best.words) || e.LogPerplexity != best.cost {
			t.Errorf("canary %v: %+v, the best is %v at %v", suffix, e, best.words, best.cost)
		}
		if want := cost(t, s, prefix, suffix); e.CanaryLogPerplexity != want || e.CanaryLogPerplexity < e.LogPerplexity {
			t.Errorf("canary %v costs %v, word by word %v, the best %v", suffix, e.CanaryLogPerplexity, want, e.LogPerplexity)
		}
	}
}
