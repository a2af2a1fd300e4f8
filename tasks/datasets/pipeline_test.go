package datasets

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// corpusExamples reads a corpus back: for every example of the source its user and its words.
func corpusExamples(t *testing.T, corpus *taskstest.Node) []line { return corpusTexts(t, corpus, " ") }

// corpusTexts does the same with another sign for the space within a word.
func corpusTexts(t *testing.T, corpus *taskstest.Node, within string) []line {
	t.Helper()
	index := must.Get(population.DecodeIndex(corpus.Blob(CorpusIndexBlob)))(t)
	var names []string
	must.Do(t, json.Unmarshal(corpus.Blob(UsersBlob), &names))
	dictionary := text.SplitLines(corpus.Blob(DictionaryBlob))
	r := bytes.NewReader(corpus.Blob(population.ShardBlob(population.Corpus, 0)))
	out := make([]line, index.Counts().Examples)
	for u, e := range index.Extents {
		ordinal := -1
		for range e.Examples {
			gap := must.Get(binary.ReadUvarint(r))(t)
			ids := must.Get(population.ReadExample(r, nil, index.Sequence, len(dictionary)))(t)
			var words []string
			for _, id := range ids {
				words = append(words, strings.ReplaceAll(dictionary[id], " ", within))
			}
			ordinal += int(gap) + 1
			out[ordinal] = line{names[u], strings.Join(words, " ")}
		}
	}
	return out
}

// cutText is the text as the corpus keeps it.
func cutText(content string) string {
	words := text.Tokenize(content)
	return strings.Join(words[:min(len(words), text.SentenceWords)], " ")
}

func TestImportKeepsEveryExampleInOrder(t *testing.T) {
	t.Parallel()
	lines := randomLines(rand.New(rand.NewPCG(3, 4)), 500)
	g := taskstest.NewGraph(t)
	half := jsonLines(lines[:200])
	corpus := g.Run(Import, ImportParams{Sources: []storage.Digest{g.Import(half), g.Import(jsonLines(lines[200:]))}})
	got := corpusExamples(t, corpus)
	if len(got) != len(lines) {
		t.Fatalf("%d examples of %d", len(got), len(lines))
	}
	firsts := map[string]int{}
	for i, l := range lines {
		if want := (line{l.User, cutText(l.Text)}); got[i] != want {
			t.Fatalf("example %d is %v, want %v", i, got[i], want)
		}
		if _, seen := firsts[l.User]; !seen {
			firsts[l.User] = len(firsts)
		}
	}
	var names []string
	must.Do(t, json.Unmarshal(corpus.Blob(UsersBlob), &names))
	for u, name := range names {
		if firsts[name] != u {
			t.Errorf("user %q is number %d, and appeared as number %d", name, u, firsts[name])
		}
	}
}

func TestImportErrorOfBadSourceIsPermanent(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	_, err := g.Try(Import, ImportParams{Sources: []storage.Digest{g.Import([]byte("oops\n"))}})
	if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "line 1: not JSON") {
		t.Errorf("a bad line: %v", err)
	}
	_, err = g.Try(Import, ImportParams{Sources: []storage.Digest{storage.DigestOf([]byte("absent"))}})
	if err == nil || tasks.IsPermanent(err) {
		t.Errorf("a source that the store cannot give may come back: %v", err)
	}
}

// vocabularyText turns tokens back to words.
func vocabularyText(v *text.Vocabulary, sentence []int32) string {
	var words []string
	for _, w := range sentence {
		if w != text.Begin && w != text.End {
			words = append(words, v.Words[w])
		}
	}
	return strings.Join(words, " ")
}

// withUnknown replaces the words that the vocabulary lacks.
func withUnknown(v *text.Vocabulary, content string) string {
	words := strings.Fields(content)
	for i, w := range words {
		if !slices.Contains(v.Words, w) {
			words[i] = v.Words[text.Unknown]
		}
	}
	return strings.Join(words, " ")
}

func TestPartsHoldEveryExampleOnce(t *testing.T) {
	t.Parallel()
	lines := randomLines(rand.New(rand.NewPCG(5, 6)), 600)
	p := runPipeline(t, jsonLines(lines), smallRecipe)
	v := must.Get(text.ParseVocabulary(p.parts.Blob(text.VocabularyBlob)))(t)
	if v.Ordinary() != smallRecipe.VocabularySize {
		t.Errorf("%d ordinary words, asked for %d", v.Ordinary(), smallRecipe.VocabularySize)
	}
	var got, want []string
	task := p.Task(taskstest.In("parts", p.parts))
	for _, part := range population.Parts {
		population := must.Get(population.OpenPart(t.Context(), task, "parts", part))(t)
		sentences := must.Get(population.ReadRecords(t.Context(), 0, population.Records()))(t)
		for _, s := range sentences {
			got = append(got, vocabularyText(v, s))
		}
	}
	for _, l := range lines {
		want = append(want, withUnknown(v, cutText(l.Text)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Error("the parts together are not the source")
	}
}

func TestVocabularyComesFromTheTrainingPartAlone(t *testing.T) {
	t.Parallel()
	var lines []line
	for i := range 400 {
		lines = append(lines, line{"ann", fmt.Sprintf("common only%d", i)})
	}
	recipe := smallRecipe
	recipe.VocabularySize = 100
	p := runPipeline(t, jsonLines(lines), recipe)
	var m EncodeMetrics
	p.parts.DecodeMetrics(&m)
	if want := m.Train.Examples + 1; m.DistinctWords != want || m.Test.Examples == 0 {
		t.Errorf("%d distinct words; each training example has one of its own: want %d", m.DistinctWords, want)
	}
	if want := m.Train.Examples + 1 - 100; m.UnknownWords != want {
		t.Errorf("%d unknown words, want %d", m.UnknownWords, want)
	}
	recipe.VocabularySize = m.DistinctWords + 1
	_, err := p.Try(Encode, recipe.Encode(), taskstest.In(CorpusInput, p.corpus))
	if want := fmt.Sprintf("only %d distinct words", m.DistinctWords); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("a vocabulary larger than the data: %v", err)
	}
}

// The test part has a binomial size; 5 standard deviations are missed with
// probability below 6e-7, once and for all since the seed is fixed.
func TestPartsHaveTheSizesAskedFor(t *testing.T) {
	t.Parallel()
	const n = 20000
	counts := map[partNumber]int{}
	coins := newPartCoins(11, 0.1, 0.2, 0)
	for range n {
		counts[coins.next()]++
	}
	for part, share := range map[partNumber]float64{test: 0.1, validation: 0.9 * 0.2, train: 0.9 * 0.8} {
		sd := math.Sqrt(n * share * (1 - share))
		if off := math.Abs(float64(counts[part]) - n*share); off > 5*sd {
			t.Errorf("%s has %d of %d examples, %.0f off the share of %v", population.Parts[part], counts[part], n, off, share)
		}
	}
}

func TestALargerFractionOnlyAddsExamples(t *testing.T) {
	t.Parallel()
	small, large := newPartCoins(1, 0.1, 0, 0), newPartCoins(1, 0.3, 0, 0)
	for i := range 1000 {
		if small.next() == test != true {
			large.next()
			continue
		}
		if large.next() != test {
			t.Fatalf("example %d is in the smaller test part only", i)
		}
	}
}

// Leaving examples out of the training part changes nothing else: the other parts and
// the vocabulary stay, and a larger share contains a smaller one. Over 2,000 examples
// the share is off by 5 standard deviations with probability below 6e-7.
func TestTrainShareChangesTrainingPartOnly(t *testing.T) {
	t.Parallel()
	data := jsonLines(randomLines(rand.New(rand.NewPCG(1, 8)), 2000))
	sentences := func(share float64) ([]string, *taskstest.Node) {
		recipe := smallRecipe
		recipe.TrainShare = share
		p := runPipeline(t, data, recipe)
		population := must.Get(population.OpenPart(t.Context(), p.Task(taskstest.In("parts", p.parts)), "parts", population.Train))(t)
		return everySentence(t, t.Context(), population), p.parts
	}
	whole, parts := sentences(0)
	before := map[string]int{}
	for _, s := range whole {
		before[s]++
	}
	for _, share := range []float64{1, 0.5, 0.05} {
		some, of := sentences(share)
		n := float64(len(whole))
		if off := math.Abs(float64(len(some)) - n*share); off > 5*math.Sqrt(n*share*(1-share)) {
			t.Errorf("%d of %d examples are used at a share of %v", len(some), len(whole), share)
		}
		now := map[string]int{}
		for _, s := range some {
			if now[s]++; now[s] > before[s] {
				t.Fatalf("at a share of %v %q trains, which a larger share leaves out", share, s)
			}
		}
		before = now
		for _, blob := range []string{text.VocabularyBlob, population.IndexBlob(population.Test), population.ShardBlob(population.Test, 0), population.IndexBlob(population.Validation)} {
			if !bytes.Equal(of.Blob(blob), parts.Blob(blob)) {
				t.Errorf("at a share of %v %s is not what it is without", share, blob)
			}
		}
	}
}

func TestBalancedUsersAreRunsOfOneUsersExamples(t *testing.T) {
	t.Parallel()
	lines := randomLines(rand.New(rand.NewPCG(7, 8)), 800)
	for _, words := range []int{1, 20, 60, 500} {
		recipe := smallRecipe
		recipe.Words = words
		p := runPipeline(t, jsonLines(lines), recipe)
		part := must.Get(population.DecodeIndex(p.parts.Blob(population.IndexBlob(population.Train))))(t)
		members := must.Get(population.DecodeIndex(p.balanced.Blob(population.MembersIndexBlob)))(t)
		held := must.Get(population.DecodeIndex(p.balanced.Blob(population.HeldOutIndexBlob)))(t)
		checkBalanced(t, part, append(slices.Clone(members.Extents), held.Extents...), words)
		if want := int(0.1*float64(len(members.Extents)+len(held.Extents)) + 0.5); len(held.Extents) != want {
			t.Errorf("%d words: %d users held out, want %d", words, len(held.Extents), want)
		}
	}
}

// checkBalanced checks each user of a part: its balanced users follow one another
// from its beginning, each of the right size, and leave less than one behind.
func checkBalanced(t *testing.T, part *population.Index, balanced []population.Extent, words int) {
	t.Helper()
	slices.SortFunc(balanced, func(a, b population.Extent) int { return int(a.Offset - b.Offset) })
	for u, user := range part.Extents {
		at, left := user.Offset, user.Words
		for len(balanced) > 0 && balanced[0].Offset < user.Offset+user.Length {
			b := balanced[0]
			if b.Offset != at || b.Words < words || b.Words >= words+text.SentenceWords {
				t.Errorf("user %d, %d words: balanced user %+v begins at %d of the stream", u, words, b, at)
			}
			at, left, balanced = at+b.Length, left-b.Words, balanced[1:]
		}
		if left >= words {
			t.Errorf("user %d: %d words are left over, enough for a user of %d", u, left, words)
		}
	}
	if len(balanced) > 0 {
		t.Errorf("balanced users outside the part: %v", balanced)
	}
}

func TestBalanceNeedsLargeEnoughUser(t *testing.T) {
	t.Parallel()
	p := runPipeline(t, jsonLines(randomLines(rand.New(rand.NewPCG(9, 9)), 100)), smallRecipe)
	_, err := p.Try(population.Balance, population.BalanceParams{Words: 1e6}, taskstest.In(population.PartsInput, p.parts))
	if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "lower users.words") {
		t.Errorf("got %v", err)
	}
}

// TestSurveyMatchesTasks runs several recipes over random sources and
// compares every number.
func TestSurveyMatchesTasks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		data := jsonLines(randomLines(rand.New(rand.NewPCG(seed, 1)), 300+int(seed)*100))
		recipes := []Recipe{
			{Seed: seed, VocabularySize: 30, TestFraction: 0.1, Words: 50, Named: strings.Join(append(common(data), "neverwritten"), " ")},
			{Seed: seed + 1, VocabularySize: 60, TestFraction: 0.2, ValidationFraction: 0.3, Words: 10, HeldOutUsers: 0.25},
			{Seed: seed, VocabularySize: 1, Words: 200, HeldOutUsers: 0.5, Sizes: true},
			{Seed: seed, VocabularySize: 30, TestFraction: 0.1, TrainShare: 0.5, Words: 20, Sizes: true},
			{Seed: seed, VocabularySize: 30, TestFraction: 0.1, TrainShare: 1, Words: 50},
		}
		facts := must.Get(Survey(t.Context(), []source.File{fileOf("data", data)}, source.Limits{}, recipes))(t)
		for i, r := range recipes {
			p := runPipeline(t, data, r)
			want := p.facts()
			want.Missing = missing(t, p.parts.Blob(text.VocabularyBlob), r.Named)
			if index, err := population.DecodeIndex(p.balanced.Blob(population.MembersIndexBlob)); err != nil {
				t.Fatal(err)
			} else if r.Sizes {
				want.Sizes = index.Sizes()
			}
			if !reflect.DeepEqual(facts[i], want) {
				t.Errorf("seed %d, recipe %d: surveyed %+v, the tasks found %+v", seed, i, facts[i], want)
			}
		}
	}
}

// common are all words of a source.
func common(data []byte) []string {
	var words []string
	for record, err := range source.Records(context.Background(), []source.File{fileOf("data", data)}, source.Limits{}) {
		if err != nil {
			panic(err)
		}
		words = append(words, text.Tokenize(record.Text)...)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// missing are the named words that a vocabulary lacks.
func missing(t *testing.T, vocabulary []byte, named string) string {
	t.Helper()
	v := must.Get(text.ParseVocabulary(vocabulary))(t)
	return strings.Join(slices.DeleteFunc(strings.Fields(named), func(word string) bool { return slices.Contains(v.Words, word) }), " ")
}

func TestSurveyRejectsBadInput(t *testing.T) {
	t.Parallel()
	file := fileOf("data.jsonl", []byte(annAndBob+"\n{}"))
	_, err := Survey(t.Context(), []source.File{file}, source.Limits{}, []Recipe{smallRecipe})
	if err == nil || !strings.HasPrefix(err.Error(), `data.jsonl, line 3: "user" is missing`) {
		t.Errorf("a bad line: %v", err)
	}
	_, err = Survey(t.Context(), []source.File{file}, source.Limits{}, []Recipe{{VocabularySize: 1, Words: 1, TestFraction: 1}})
	must.Say(t, err, "test fraction is 1; expected at least 0 and less than 1")
}

// Recipes are surveyed in several ways: the first ones while the source is read, others
// from memory, or by reading it again. The facts are those of each alone.
func TestFactsDoNotDependOnOtherRecipes(t *testing.T) {
	t.Parallel()
	var content strings.Builder
	for i := range blockExamples + 1000 {
		fmt.Fprintf(&content, `{"user":"u%d","text":"w%d w%d w%d w%d"}`+"\n", i*i%53, i%101, i*i%997, i%(i/100+1), i*7%13)
	}
	src := []source.File{{Name: "text", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content.String())), nil }}}
	recipes := make([]Recipe, 2*firstRecipes+3)
	alone := make([]Facts, len(recipes))
	for i := range recipes {
		recipes[i] = Recipe{Seed: uint64(i / 2), VocabularySize: 10 + 60*i, TestFraction: 0.05 * float64(i%3), ValidationFraction: 0.2 * float64(i%2), Words: 50 * (1 + i%7), HeldOutUsers: 0.1 * float64(i%4)}
		if i%5 == 0 {
			recipes[i].Reading, recipes[i].VocabularySize = source.Reading{Level: text.ByteLevel}, 0
		}
	}
	for i, r := range recipes {
		facts := must.Get(Survey(t.Context(), src, source.Limits{}, []Recipe{r}))(t)
		alone[i] = facts[0]
	}
	for name, memory := range map[string]surveyMemory{
		"kept": {kept: 1 << 30}, "read again": {kept: 1 << 16, states: 1 << 30}, "read again for every few": {},
	} {
		facts, err := survey(t.Context(), src, source.Limits{}, recipes, memory)
		if err != nil || !reflect.DeepEqual(facts, alone) {
			t.Errorf("%s: %v\n%+v\nwant\n%+v", name, err, facts, alone)
		}
	}
}

func TestVocabularyOrdersByFrequencyThenWord(t *testing.T) {
	t.Parallel()
	words := []string{"pear", "fig", "apple", "never", "plum"}
	got := mostFrequent(words, []int64{2, 5, 2, 0, 1}, 4)
	if want := []uint32{1, 2, 0, 4}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNothingToPredictAdviceFitsCause(t *testing.T) {
	t.Parallel()
	if err := population.NothingToPredict(population.Test, false); !strings.Contains(err.Error(), "raise data.test.fraction, or name a split with examples by data.test.split") {
		t.Errorf("an empty part: %v", err)
	}
	if err := population.NothingToPredict(population.Validation, true); strings.Contains(err.Error(), "fraction") || !strings.Contains(err.Error(), "the validation part has words, but none of them is in the vocabulary: raise data.vocabulary.size") {
		t.Errorf("a part of unknown words: %v", err)
	}
}

func TestUsersThatDifferInSpacesOrUnicodeFormAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names []string
		want  SimilarUsers
	}{
		{nil, SimilarUsers{}},
		{[]string{"ann", "Ann", "an n", " ", "caf\u00e9"}, SimilarUsers{}},
		{[]string{"ann", " bob", "cid"}, SimilarUsers{}},
		{[]string{"u1", "u2", " u1 ", "u1\t"}, SimilarUsers{2, " u1 ", "u1"}},
		{[]string{" u1", "u1 "}, SimilarUsers{1, "u1 ", " u1"}},
		{[]string{"cafe\u0301", "x", "caf\u00e9"}, SimilarUsers{1, "caf\u00e9", "cafe\u0301"}},
	} {
		if got := similarUsers(c.names); got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.names, got, c.want)
		}
	}
	src := fileOf("posts.jsonl", jsonLines([]line{{"ann", "one two"}, {"ann ", "one two"}}))
	facts := must.Get(Survey(t.Context(), []source.File{src}, source.Limits{}, []Recipe{{Reading: source.Reading{Level: text.ByteLevel}}}))(t)
	if want := (SimilarUsers{1, "ann ", "ann"}); facts[0].Similar != want {
		t.Errorf("the survey found %+v", facts[0].Similar)
	}
}
