package datasets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

func TestFaultsChangeTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault   faults.Planted
		text    string
		words   []string
		changed bool
	}{
		{faults.Planted{Fault: faults.JoinWords}, "I have it.", []string{"i have", "it", "."}, true},
		{faults.Planted{Fault: faults.JoinWords}, "However, no", []string{"however ,", "no"}, true},
		{faults.Planted{Fault: faults.JoinWords}, "Alone", []string{"alone"}, false},
		{faults.Planted{Fault: faults.KeepCase}, "I don’t, Émile", []string{"I", "don't", ",", "Émile"}, true},
		{faults.Planted{Fault: faults.KeepCase}, "so it is", []string{"so", "it", "is"}, false},
		{faults.Planted{Fault: faults.Latin1}, "Café au lait", []string{"cafã", "©", "au", "lait"}, true},
		{faults.Planted{Fault: faults.Latin1}, "plain ASCII", []string{"plain", "ascii"}, false},
		{faults.Planted{Fault: faults.Truncate, Length: 5}, "Good day", []string{"good"}, true},
		{faults.Planted{Fault: faults.Truncate, Length: 6}, "Good day", []string{"good", "d"}, true},
		{faults.Planted{Fault: faults.Truncate, Length: 2}, "  été long", []string{"ét"}, true},
		{faults.Planted{Fault: faults.Truncate, Length: 8}, "Good day", []string{"good", "day"}, false},
	} {
		c.fault.Examples = 1
		l := newLexicon(source.Reading{}, faults.Params{Faults: []faults.Planted{c.fault}})
		numbers, _ := l.sentence(0, c.text)
		if words := text.WordsAt(l.words.all, numbers); !slices.Equal(words, c.words) {
			t.Errorf("%s makes %q of %q, want %q", c.fault.Fault, words, c.text, c.words)
		}
		if found := l.found()[0]; found.Examples != 1 || found.Users != 1 || found.Changed == 1 != c.changed {
			t.Errorf("%s in %q: %+v, changed %v", c.fault.Fault, c.text, found, c.changed)
		}
	}
}

// A fault removes words before the sentence is cut, so that a join brings one more word into it.
func TestSentencesAreCutAfterTheFault(t *testing.T) {
	t.Parallel()
	l := newLexicon(source.Reading{Sequence: 2}, faults.Params{Faults: []faults.Planted{{Fault: faults.JoinWords, Users: 1}}})
	for content, want := range map[string]bool{"a b c": false, "a b c d": true} {
		numbers, cut := l.sentence(0, content)
		if words := text.WordsAt(l.words.all, numbers); !slices.Equal(words, []string{"a b", "c"}) || cut != want {
			t.Errorf("%q reads %q, cut: %v", content, words, cut)
		}
	}
}

// faultyLines are texts in which every fault finds something to change.
func faultyLines(n int) []line {
	lines := randomLines(rand.New(rand.NewPCG(8, uint64(n))), n)
	for i := range lines {
		lines[i].Text = strings.Replace(lines[i].Text, "w1", "Wé", 2)
	}
	return lines
}

// bruteForce is the text of an example with a fault in it, written from its definition
// alone: words with one space between, a joined word with _.
func bruteForce(f *faults.Planted, content string) string {
	words := text.Tokenize(content)
	switch f.Fault {
	case faults.JoinWords:
		return strings.Replace(strings.Join(words, " "), " ", "_", 1)
	case faults.KeepCase:
		// The texts of these tests have no punctuation.
		return content
	case faults.Latin1:
		var out strings.Builder
		for i := range len(content) {
			out.WriteRune(rune(content[i]))
		}
		return strings.Join(text.Tokenize(out.String()), " ")
	default:
		return strings.Join(text.Tokenize(string([]rune(content)[:min(f.Length, len([]rune(content)))])), " ")
	}
}

// drawn says which examples are hit, from docs/random-streams.md.
func drawn(f *faults.Planted, seed uint64, place int, lines []line) []bool {
	users, coins := seeds.Stream(seed, seeds.FaultyUsers, uint64(place)), seeds.Stream(seed, seeds.FaultyExamples, uint64(place))
	faulty := map[string]bool{}
	hit := make([]bool, len(lines))
	for i, l := range lines {
		if _, known := faulty[l.User]; !known {
			faulty[l.User] = f.Users == 0 || users.Float64() < f.Users
		}
		coin := coins.Float64()
		hit[i] = faulty[l.User] && (f.Examples == 0 || coin < f.Examples)
	}
	return hit
}

func TestImportPlantsFaultsByStream(t *testing.T) {
	t.Parallel()
	lines := faultyLines(400)
	for _, f := range []faults.Planted{
		{Fault: faults.JoinWords, Examples: 0.3}, {Fault: faults.JoinWords, Users: 0.5}, {Fault: faults.KeepCase, Users: 0.6, Examples: 0.5},
		{Fault: faults.Latin1, Examples: 0.2}, {Fault: faults.Truncate, Users: 0.4, Length: 17},
	} {
		g := taskstest.NewGraph(t)
		corpus := g.Run(Import, ImportParams{
			Sources: []storage.Digest{g.Import(jsonLines(lines))}, Reading: source.Reading{Sequence: 90},
			Params: faults.Params{Faults: []faults.Planted{f}, FaultSeed: 5},
		})
		got, hit := corpusTexts(t, corpus, "_"), drawn(&f, 5, 0, lines)
		want := faults.Count{Fault: f.Fault}
		reached := map[string]bool{}
		for i, l := range lines {
			text := strings.Join(text.Tokenize(l.Text), " ")
			if hit[i] {
				faulty := bruteForce(&f, l.Text)
				want.Examples++
				if faulty != text {
					want.Changed++
				}
				text, reached[l.User] = faulty, true
			}
			if got[i] != (line{l.User, text}) {
				t.Fatalf("%+v: example %d is %v, want %q of %s; hit: %v", f, i, got[i], text, l.User, hit[i])
			}
		}
		want.Users = len(reached)
		var m ImportMetrics
		corpus.DecodeMetrics(&m)
		if !slices.Equal(m.Faults, []faults.Count{want}) || want.Changed == 0 || want.Examples == len(lines) {
			t.Errorf("%+v: recorded %+v, want %+v", f, m.Faults, want)
		}
	}
}

// Of several faults the text comes first, then the tokenizer, then the words.
func TestFaultsAreIndependentAndStack(t *testing.T) {
	t.Parallel()
	lines := faultyLines(300)
	both := []faults.Planted{{Fault: faults.JoinWords, Examples: 0.5}, {Fault: faults.Truncate, Examples: 0.5, Length: 20}}
	l, hit := newLexicon(source.Reading{}, faults.Params{Faults: both, FaultSeed: 3}), [2][]bool{}
	users := map[string]int{}
	for i := range both {
		hit[i] = drawn(&both[i], 3, i, lines)
	}
	met := map[[2]bool]int{}
	for i, x := range lines {
		if _, known := users[x.User]; !known {
			users[x.User] = len(users)
		}
		content := x.Text
		if hit[1][i] {
			characters := []rune(strings.TrimLeft(content, " "))
			content = string(characters[:min(len(characters), 20)])
		}
		if content = strings.Join(text.Tokenize(content), " "); hit[0][i] {
			content = bruteForce(&both[0], content)
		}
		numbers, _ := l.sentence(users[x.User], x.Text)
		if got := underscored(text.WordsAt(l.words.all, numbers)); !strings.HasPrefix(content+" ", got+" ") {
			t.Fatalf("example %d reads %q, want %q", i, got, content)
		}
		met[[2]bool{hit[0][i], hit[1][i]}]++
	}
	for hits, n := range met { // each has probability 1/4: 300 trials leave 40 with probability below 1e-6
		if n < 40 {
			t.Errorf("%d examples are hit as %v; coins of faults depend on each other", n, hits)
		}
	}
}

func underscored(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, strings.ReplaceAll(w, " ", "_"))
	}
	return strings.Join(out, " ")
}

// The corpora with and without faults have the same users and examples in the same order,
// and so the same parts. Words that a fault has altered are unknown.
func TestFaultsChangeNeitherPartsNorVocabulary(t *testing.T) {
	t.Parallel()
	data := jsonLines(faultyLines(500))
	clean, faulty := smallRecipe, smallRecipe
	faulty.Faults = []faults.Planted{{Fault: faults.JoinWords, Users: 0.5}}
	a, b := runPipeline(t, data, clean), runPipeline(t, data, faulty)
	if !slices.Equal(a.parts.Blob(text.VocabularyBlob), b.parts.Blob(text.VocabularyBlob)) {
		t.Error("the fault has changed the vocabulary")
	}
	v := must.Get(text.ParseVocabulary(b.parts.Blob(text.VocabularyBlob)))(t)
	joined := 0
	for _, part := range population.Parts {
		before, after := partSentences(t, a, part), partSentences(t, b, part)
		for u := range before {
			for i, sentence := range before[u] {
				if joins := !slices.Equal(sentence, after[u][i]); joins {
					joined++
				} else {
					continue
				}
				words, left := vocabularyText(v, sentence), vocabularyText(v, after[u][i])
				if want := "<unk> " + strings.Join(strings.Fields(words)[2:], " "); !strings.HasPrefix(left+" ", strings.TrimSpace(want)) {
					t.Fatalf("%s: %q became %q", part, words, left)
				}
			}
		}
	}
	var m EncodeMetrics
	b.parts.DecodeMetrics(&m)
	unknown := 0
	for _, user := range partSentences(t, b, population.Train) {
		for _, sentence := range user {
			unknown += len(sentence) - len(slices.DeleteFunc(sentence, func(w int32) bool { return w == text.Unknown }))
		}
	}
	if joined < 100 || m.UnknownWords != unknown {
		t.Errorf("%d sentences were joined; %d unknown words were counted, %d are there", joined, m.UnknownWords, unknown)
	}
}

// partSentences are the sentences of a part by user.
func partSentences(t *testing.T, p pipeline, part population.Part) [][][]int32 {
	t.Helper()
	population := must.Get(population.OpenPart(t.Context(), p.Task(taskstest.In("parts", p.parts)), "parts", part))(t)
	users := make([][][]int32, population.Users())
	for u := range users {
		sentences := must.Get(population.ReadUser(t.Context(), u))(t)
		for _, s := range sentences {
			users[u] = append(users[u], slices.Clone(s))
		}
	}
	return users
}

func TestSurveyMatchesTasksForFaults(t *testing.T) {
	t.Parallel()
	data := jsonLines(faultyLines(400))
	var recipes []Recipe
	for i, list := range [][]faults.Planted{
		nil, {{Fault: faults.JoinWords, Examples: 0.1}}, {{Fault: faults.JoinWords, Examples: 1}}, {{Fault: faults.KeepCase, Users: 0.5}, {Fault: faults.Latin1, Examples: 0.5}},
		{{Fault: faults.Truncate, Users: 0.7, Length: 12}},
	} {
		r := smallRecipe
		r.Faults, r.Seed, r.Words, r.Named = list, uint64(i), 30, strings.Join([]string{"w3", "w50", "neverwritten"}, " ")
		r.TrainShare = float64(i%2) / 2
		recipes = append(recipes, r)
		if i > 2 {
			r.Level, r.VocabularySize, r.Named, r.Faults = text.ByteLevel, 0, "", list[len(list)-1:]
			recipes = append(recipes, r)
		}
	}
	recipes = append(recipes, recipes...) // more than are followed in the first pass
	for name, memory := range map[string]surveyMemory{"kept": {kept: 1 << 30}, "read again": {states: 1}} {
		facts := must.Get(survey(t.Context(), []source.File{fileOf("data", data)}, source.Limits{}, recipes, memory))(t)
		for i, r := range recipes[:len(recipes)/2] {
			want := factsOf(t, runPipeline(t, data, r), r)
			for _, got := range []Facts{facts[i], facts[i+len(recipes)/2]} {
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s, %+v: surveyed %+v, the tasks found %+v", name, r, got, want)
				}
			}
		}
	}
}

// factsOf are the facts as the tasks find them.
func factsOf(t *testing.T, p pipeline, r Recipe) Facts {
	t.Helper()
	var f Facts
	p.corpus.DecodeMetrics(&f.Source)
	p.parts.DecodeMetrics(&f.Parts)
	p.balanced.DecodeMetrics(&f.Balance)
	if r.Named != "" {
		f.Missing = missing(t, p.parts.Blob(text.VocabularyBlob), r.Named)
	}
	if p.vocabulary != nil {
		var m EncodeMetrics
		p.vocabulary.DecodeMetrics(&m)
		f.VocabularyWords = m.DistinctWords
	}
	return f
}

func TestFaultsLeaveWordsInEveryText(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 3))
	planted := []faults.Planted{{Fault: faults.Latin1, Examples: 0.7}, {Fault: faults.Truncate, Examples: 0.7, Length: 1}, {Fault: faults.JoinWords, Examples: 0.7}, {Fault: faults.KeepCase, Examples: 0.7}}
	l := newLexicon(source.Reading{}, faults.Params{Faults: planted})
	for range 5000 {
		content := make([]rune, 1+rng.IntN(6))
		for i := range content {
			ranges := []int{0x80, 0x100, 0x3000, unicode.MaxRune}
			content[i] = rune(rng.IntN(ranges[rng.IntN(len(ranges))]))
		}
		valid := strings.ToValidUTF8(string(content), "")
		if !text.HasWord(valid, false) {
			continue
		}
		if words, _ := l.sentence(0, valid); len(words) == 0 {
			t.Fatalf("faults leave no word of %q", valid)
		}
	}
}

func TestFaultsThatCannotBePlantedAreRejected(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	src := []storage.Digest{g.Import([]byte(annAndBob))}
	for want, p := range map[string]ImportParams{
		`fault "rot13": expected one of join-words, keep-case`: {Params: faults.Params{Faults: []faults.Planted{{Fault: "rot13", Users: 1}}}},
		"fault keep-case at the byte level; expected one of t": {Reading: source.Reading{Level: text.ByteLevel}, Params: faults.Params{Faults: []faults.Planted{{Fault: faults.KeepCase, Users: 1}}}},
		"fault latin-1 has no share":                           {Params: faults.Params{Faults: []faults.Planted{{Fault: faults.Latin1}}}},
		"fault latin-1 hits a share 1.5 of the users":          {Params: faults.Params{Faults: []faults.Planted{{Fault: faults.Latin1, Users: 1.5}}}},
		"fault latin-1 hits a share -1 of the examples":        {Params: faults.Params{Faults: []faults.Planted{{Fault: faults.Latin1, Examples: -1}}}},
		"fault truncate with a length of 0; expected at least": {Params: faults.Params{Faults: []faults.Planted{{Fault: faults.Truncate, Users: 1}}}},
		"fault latin-1 with a length of 3":                     {Params: faults.Params{Faults: []faults.Planted{{Fault: faults.Latin1, Users: 1, Length: 3}}}},
	} {
		p.Sources = src
		if _, err := g.Try(Import, p); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error with %q", p, err, want)
		}
		r := Recipe{Reading: p.Reading, Faults: p.Faults, Words: 1}
		if r.Level != text.ByteLevel {
			r.VocabularySize = 1
		}
		if _, err := Survey(context.Background(), []source.File{fileOf("data", []byte(annAndBob))}, source.Limits{}, []Recipe{r}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("surveyed %+v: %v, want an error with %q", p, err, want)
		}
	}
}

func TestEncodeRejectsVocabularyOfWrongSize(t *testing.T) {
	t.Parallel()
	p := runPipeline(t, jsonLines(faultyLines(100)), smallRecipe)
	params := smallRecipe.Encode()
	params.VocabularySize--
	_, err := p.Try(Encode, params, taskstest.In(CorpusInput, p.corpus), taskstest.In(VocabularyInput, p.parts))
	if want := fmt.Sprintf("has %d words; expected %d", smallRecipe.VocabularySize, params.VocabularySize); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want an error with %q", err, want)
	}
}
