package samples

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// bench has an untrained model and its vocabulary.
type bench struct {
	*taskstest.Graph
	t                 *testing.T
	model, vocabulary *taskstest.Node
}

func newBench(t *testing.T, words ...string) *bench {
	t.Helper()
	b := &bench{Graph: taskstest.NewGraph(t), t: t}
	all := append(text.Specials(), words...)
	b.model = b.Run(training.Initial, training.InitialParams{Seed: 3, Model: models.Config{Kind: models.LSTM, Vocabulary: len(all), Embedding: 6, Units: 9}})
	b.vocabulary = b.Put("vocabulary", map[string][]byte{text.VocabularyBlob: []byte(strings.Join(all, "\n") + "\n")})
	return b
}

func byteBench(t *testing.T) *bench {
	return newBench(t, text.ByteLevel.Scheme().Symbols...)
}

func (b *bench) draw(p Params) *taskstest.Node {
	return b.Run(Kind, p, taskstest.In(audits.ModelInput, b.model))
}

func (b *bench) search(p SearchParams) *taskstest.Node {
	return b.Run(Search, p, taskstest.In(audits.ModelInput, b.model))
}

// summary draws samples in parts of the given size, and joins them.
func (b *bench) summary(p SummaryParams, each int, search ...*taskstest.Node) (*taskstest.Node, Outcome) {
	b.t.Helper()
	inputs := []taskstest.Edge{taskstest.In(audits.ModelInput, b.model), taskstest.In(population.PartsInput, b.vocabulary)}
	for _, span := range audits.Split(p.Count, each) {
		part := b.draw(Params{Seed: p.Seed, First: span.First, Count: span.Count, Length: p.Length, Sampling: p.Sampling})
		inputs = append(inputs, taskstest.In(tasks.PartInput(p.Parts), part))
		p.Parts++
	}
	for _, s := range search {
		p.Searched = true
		inputs = append(inputs, taskstest.In(SearchInput, s))
	}
	node := b.Run(Summary, p, inputs...)
	var v Outcome
	b.decode(node, audits.OutcomeBlob, &v)
	return node, v
}

func (b *bench) decode(n *taskstest.Node, blob string, into any) {
	b.t.Helper()
	if err := json.Unmarshal(n.Blob(blob), into); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) scorer() *models.Scorer {
	b.t.Helper()
	m := must.Get(checkpoints.Decode(b.model.Blob(tasks.ModelBlob)))(b.t)
	return must.Get(m.NewScorer())(b.t)
}

var plain = models.Sampling{Temperature: 1}

func TestSamplesDoNotDependOnTheirTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b", "c")
	p := SummaryParams{Seed: 5, Count: 2500, Length: 5, Sampling: models.Sampling{Temperature: 0.8, TopK: 6}, Shown: 9, Significance: 0.01}
	one, v := b.summary(p, 2500)
	many, _ := b.summary(p, 301)
	if !bytes.Equal(one.Blob(audits.OutcomeBlob), many.Blob(audits.OutcomeBlob)) || v.Samples != 2500 || len(v.Shown) != 9 {
		t.Errorf("in one task %s\nin nine %s", one.Blob(audits.OutcomeBlob), many.Blob(audits.OutcomeBlob))
	}
}

// The interval of the first position contains the exact probability in at least 95% of the
// cases, and that of all words the mean over a hundred times as many samples. The seed is
// fixed.
func TestSharesCoverModelProbabilities(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b", "c")
	p := SummaryParams{Seed: 2, Count: 4000, Length: 6, Sampling: plain, Shown: 3, Significance: 0.001}
	_, v := b.summary(p, 4000)
	p.Seed, p.Count = 3, 100_000
	_, more := b.summary(p, 50_000)
	u := v.Unknown
	if first := u.Positions[0]; first.Low > u.FirstProbability || u.FirstProbability > first.High || first.High-first.Low > 0.03 {
		t.Errorf("first words: %+v, exactly %v", first, u.FirstProbability)
	}
	if u.All.Low > more.Unknown.All.Share || more.Unknown.All.Share > u.All.High || u.All.High-u.All.Low > 0.02 {
		t.Errorf("all words: %+v, of more samples %+v", u.All, more.Unknown.All)
	}
	if len(u.Positions) != 6 || u.First.StandsOut || v.Spaces != nil || v.Search != nil {
		t.Errorf("outcome %+v", v)
	}
	row, state := make([]float32, 7), b.scorer().Start(1)
	must.Do(t, b.scorer().Step(state, []int32{text.Begin}))
	must.Do(t, b.scorer().LogProbRows(state, row))
	rest := 0.0
	for token, l := range row {
		if token != text.End {
			rest += math.Exp(float64(l))
		}
	}
	if want := math.Exp(float64(row[text.Unknown])) / rest; math.Abs(u.FirstProbability-want) > 1e-6 {
		t.Errorf("first word: %v, want %v", u.FirstProbability, want)
	}
}

// sentence is a sample of words; the unknown ones are given by position.
func sentence(length int, unknown func(position int) bool) Drawn {
	var d Drawn
	for i := range length {
		token := int32(text.FirstWord)
		if unknown(i) {
			token = text.Unknown
		}
		d.Tokens = append(d.Tokens, token)
	}
	return d
}

// Of 1000 models whose first words are as the others, at most 72 are said to stand out at
// a significance of 5%: a right program says so of more with probability 1e-3. Words of one
// sentence depend on each other here, as they do in text.
func TestFirstWordFalseAlarmRate(t *testing.T) {
	t.Parallel()
	rng, alarms := rand.New(rand.NewPCG(1, 9)), 0
	for i := range 1000 {
		var samples []Drawn
		for range 200 {
			p := 0.6 * rng.Float64()
			samples = append(samples, sentence(rng.IntN(7), func(int) bool { return rng.Float64() < p }))
		}
		if (&SummaryParams{Seed: uint64(i), Significance: 0.05}).contrast(samples).StandsOut {
			alarms++
		}
	}
	if alarms > 72 {
		t.Errorf("%d of 1000 stand out", alarms)
	}
}

func TestFaultyFirstWordIsDetected(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 9))
	var samples []Drawn
	for range 2000 {
		samples = append(samples, sentence(8, func(position int) bool {
			return rng.Float64() < 0.065 || position == 0 && rng.Float64() < 0.1
		}))
	}
	p := &SummaryParams{Seed: 1, Significance: 0.001}
	if u := p.countUnknown(samples); !u.First.StandsOut || u.First.P > 1e-6 || u.First.FirstOnly < u.First.OtherOnly {
		t.Errorf("%+v", u.First)
	}
	last := func(position int) bool { return position == 7 }
	if c := p.contrast(slices.Repeat([]Drawn{sentence(8, last)}, 2000)); c.StandsOut || c.P < 0.999 {
		t.Errorf("where the last word is unknown: %+v", c)
	}
}

// sequences are all that end within the length, by brute force.
func (b *bench) sequences(length int) []Drawn {
	b.t.Helper()
	s := b.scorer()
	row, out := make([]float32, s.Model().Config().Vocabulary), []Drawn(nil)
	var walk func(words []int32, logP float64)
	walk = func(words []int32, logP float64) {
		state := must.Get(audits.PrefixState(s, words))(b.t)
		must.Do(b.t, s.LogProbRows(state, row))
		logProbs := slices.Clone(row)
		if len(words) > 0 {
			out = append(out, Drawn{append(slices.Clone(words), text.End), logP + float64(logProbs[text.End])})
		}
		for token := int32(0); int(token) < len(row) && len(words)+1 < length; token++ {
			if token == text.Unknown || token >= text.FirstWord {
				walk(append(slices.Clone(words), token), logP+float64(logProbs[token]))
			}
		}
	}
	walk(nil, 0)
	slices.SortFunc(out, func(a, b Drawn) int {
		return cmp.Or(cmp.Compare(b.LogProbability, a.LogProbability), slices.Compare(a.Tokens, b.Tokens))
	})
	return out
}

func settings(results int) search.Settings {
	return search.Settings{Batch: 3, Results: results, Prove: results, Memory: 1 << 20}
}

func TestTheSearchFindsTheMostProbableSequencesOfAll(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b", "c")
	var found search.Searched
	b.decode(b.search(SearchParams{Length: 5, Settings: settings(40), Expansions: 10_000}), SearchedBlob, &found)
	want := b.sequences(5)
	if found.Certain != 40 || found.Stop != search.Proved || len(found.Best) != 40 || found.Expanded >= len(want) {
		t.Fatalf("%d certain of %d, %s, after %d of %d nodes", found.Certain, len(found.Best), found.Stop, found.Expanded, len(want))
	}
	for i, s := range found.Best {
		if !slices.Equal(s.Tokens, want[i].Tokens) || -s.LogPerplexity != want[i].LogProbability {
			t.Errorf("number %d is %v, by brute force %v", i, s, want[i])
		}
	}
}

// One that is cut says of how many it is certain, and these are right.
func TestCutSearchIsCertainOfBestSequencesOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b", "c")
	want := b.sequences(5)
	for _, expansions := range []int{1, 5, 20, 60} {
		var found search.Searched
		b.decode(b.search(SearchParams{Length: 5, Settings: settings(40), Expansions: expansions}), SearchedBlob, &found)
		if found.Stop != search.Expansions || found.Certain >= 40 {
			t.Errorf("after %d expansions: %s, %d certain", expansions, found.Stop, found.Certain)
		}
		for i, s := range found.Best[:found.Certain] {
			if !slices.Equal(s.Tokens, want[i].Tokens) {
				t.Errorf("after %d expansions number %d is %v, by brute force %v", expansions, i, s, want[i])
			}
		}
	}
}

func TestSamplesAndSearchGiveAWordOneProbability(t *testing.T) {
	t.Parallel()
	b := byteBench(t)
	p := SummaryParams{Seed: 5, Count: 3000, Length: 3, Sampling: plain, Shown: 300, Significance: 0.01}
	_, v := b.summary(p, 1500, b.search(SearchParams{Length: 3, Settings: settings(300), Expansions: 1000}))
	exact := map[string]float64{}
	for _, w := range v.Search.Words {
		exact[w.Text] = w.LogProbability
	}
	shared, spaced := 0, 0
	for _, w := range v.MostProbable {
		if logP, both := exact[w.Text]; both {
			shared++
			if logP != w.LogProbability {
				t.Errorf("%q has %v by the search, %v among the samples", w.Text, logP, w.LogProbability)
			}
		}
	}
	for _, w := range v.Search.Words {
		if strings.Contains(w.Text, " ") {
			spaced++
		}
	}
	if shared == 0 || v.Search.Certain == 0 || v.Unknown != nil || v.Spaces.Of != 300 || v.Spaces.Top != spaced || spaced == 0 || v.Cut == 0 {
		t.Errorf("%d words in both lists, %d certain, %d with a space, spaces %+v", shared, v.Search.Certain, spaced, v.Spaces)
	}
}

func bytesOf(s string) (d Drawn) {
	for i := range len(s) {
		d.Tokens = append(d.Tokens, text.FirstWord+int32(s[i]))
	}
	return d
}

func TestReaderEscapesInvalidBytes(t *testing.T) {
	t.Parallel()
	r := NewReader(&text.Vocabulary{Words: append(text.Specials(), text.ByteLevel.Scheme().Symbols...)})
	for text, want := range map[string]string{
		"i have": "i have", "naïve": "naïve", "a\nb": "a<0x0A>b", "na\xc3": "na<0xC3>", "": "",
	} {
		got, err := r.Text(new(bytesOf(text)))
		if err != nil || got.Text != want || !got.Cut || got.spaced != strings.Contains(text, " ") {
			t.Errorf("%q reads %+v, want %q (%v)", text, got, want, err)
		}
	}
	mixed := Drawn{Tokens: []int32{text.Unknown, text.FirstWord + 'x', text.End}}
	if got, err := r.Text(&mixed); err != nil || got.Text != "<unk>x" || got.Cut {
		t.Errorf("%+v, %v", got, err)
	}
	words := NewReader(&text.Vocabulary{Words: append(text.Specials(), "good", "day")})
	if got, err := words.Text(&Drawn{Tokens: []int32{1, 5, 4, 3}}); err != nil || got.Text != "<unk> day good" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := words.Text(&Drawn{Tokens: []int32{6}}); err == nil {
		t.Error("a token beyond the vocabulary was read")
	}
}

func TestEqualSamplesAreCountedTogether(t *testing.T) {
	t.Parallel()
	samples := []Drawn{{[]int32{4, 3}, -2}, {[]int32{5, 3}, -1}, {[]int32{3}, -0.1}, {[]int32{4, 3}, -2}, {[]int32{6, 3}, -2}, {[]int32{5, 5}, -0.5}, {[]int32{2, 3}, -0.7}, {[]int32{4, 0, 3}, -0.6}}
	got := distinct(samples)
	want := []counted{{&samples[1], 1}, {&samples[0], 2}, {&samples[4], 1}}
	if !slices.EqualFunc(got, want, func(a, b counted) bool { return slices.Equal(a.Tokens, b.Tokens) && a.drawn == b.drawn }) {
		t.Errorf("%+v", got)
	}
}

func TestPartsThatLackSamplesAreRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a")
	part := b.draw(Params{Count: 3, Length: 2, Sampling: plain})
	_, err := b.Try(Summary, SummaryParams{Parts: 1, Count: 4, Sampling: plain}, taskstest.In(audits.ModelInput, b.model), taskstest.In(population.PartsInput, b.vocabulary), taskstest.In(tasks.PartInput(0), part))
	if err == nil || !strings.Contains(err.Error(), "3 drawn in 1 parts; expected 4") {
		t.Errorf("error %v", err)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	b := byteBench(t)
	p := Params{Seed: 5, First: 7, Count: 20, Length: 6, Sampling: models.Sampling{Temperature: 0.7, TopK: 40}}
	taskstest.Golden(t, b.draw(p))
	found := b.search(SearchParams{Length: 3, Settings: settings(5), Expansions: 50})
	taskstest.Golden(t, found)
	node, _ := b.summary(SummaryParams{Seed: 5, Count: 40, Length: 6, Sampling: p.Sampling, Shown: 4, Significance: 0.01}, 20, found)
	taskstest.Golden(t, node)
}
