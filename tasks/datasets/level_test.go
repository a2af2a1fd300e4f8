package datasets

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// bytesOf undoes the vocabulary: the text that a sentence was made of.
func bytesOf(t testing.TB, sentence []int32) string {
	t.Helper()
	var content []byte
	for _, token := range sentence[1 : 1+text.WordsOf(sentence)] {
		if token < text.FirstWord || token >= text.FirstWord+text.Bytes {
			t.Fatalf("token %d in %v is no byte", token, sentence)
		}
		content = append(content, byte(token-text.FirstWord))
	}
	return string(content)
}

func FuzzBytesComeBackAsTheyWere(f *testing.F) {
	for _, text := range []string{"plain", "Don\u2019t \u00e9\n\t", "\x00\xff\xfe", "<0x0A> <unk>", strings.Repeat("long ", 60)} {
		f.Add(text, uint16(20))
	}
	f.Fuzz(func(t *testing.T, content string, sequence uint16) {
		r := source.Reading{Level: text.ByteLevel, Sequence: 1 + int(sequence)%text.MaxSequence}
		words, cut := newLexicon(r, faults.Params{}).sentence(0, content)
		var got []byte
		for _, w := range words {
			got = append(got, byte(w))
		}
		if string(got) != content[:len(got)] || len(got) != min(len(content), r.Sequence) || cut != (len(got) < len(content)) {
			t.Fatalf("%q cut at %d gives %q, cut %v", content, r.Sequence, got, cut)
		}
		symbols := text.ByteSymbols(string(got))
		if back := text.SplitLines(text.JoinLines(symbols)); !slices.Equal(back, symbols) {
			t.Fatalf("symbols %q come back as %q", symbols, back)
		}
	})
}

func TestSentencesOfBytesAreTheTexts(t *testing.T) {
	t.Parallel()
	texts := []string{"One MAN, one vote.", "na\u00efve \u2014 no", strings.Repeat("x", 99), strings.Repeat("y", 100), strings.Repeat("z", 101)}
	var lines []line
	for _, text := range texts {
		lines = append(lines, line{"ann", text})
	}
	r := Recipe{Reading: source.Reading{Level: text.ByteLevel}, Words: 1}
	p := runPipeline(t, jsonLines(lines), r)
	population := p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}), population.ByUser)
	var got []string
	for u := range population.Users() {
		sentences := must.Get(population.ReadUser(t.Context(), u))(t)
		for _, s := range sentences {
			if ended := s[len(s)-1] == text.End; ended != (text.WordsOf(s) < text.SentenceBytes) {
				t.Errorf("a sentence of %d bytes ends: %v", text.WordsOf(s), ended)
			}
			got = append(got, bytesOf(t, s))
		}
	}
	texts[4] = texts[4][:100]
	if !slices.Equal(got, texts) {
		t.Errorf("got %q, want %q", got, texts)
	}
}

// Recipes of several readings share one pass over the source.
func TestSurveyMatchesTasksForEveryReading(t *testing.T) {
	t.Parallel()
	data := jsonLines(randomLines(rand.New(rand.NewPCG(4, 4)), 150))
	words, bytes, long := smallRecipe, smallRecipe, smallRecipe
	bytes.Level, bytes.VocabularySize, bytes.Words = text.ByteLevel, 0, 300
	long.Sequence = 25
	short := bytes
	short.Sequence, short.Words = 7, 40
	recipes := []Recipe{words, bytes, long, short}
	ran := checkSurvey(t, data, recipes)
	for i, r := range recipes {
		p := ran[i]
		iid := p.open(t, p.partition(population.PartitionParams{Partition: population.IID, Words: r.Words, Seed: 1}), population.IID)
		for _, s := range everyUser(t, iid) {
			if n := text.WordsOf(s); n < 1 || n > r.Complete().Sequence {
				t.Fatalf("%+v: a sentence of %d words", r.Reading, n)
			}
		}
	}
	if words, bytes := ran[0].facts(), ran[1].facts(); words.Source.Examples != bytes.Source.Examples || words.Parts.Test.Examples != bytes.Parts.Test.Examples {
		t.Error("levels are not paired: their parts hold other examples")
	}
}

func everyUser(t *testing.T, p *population.Population) [][]int32 {
	t.Helper()
	var all [][]int32
	for u := range p.Users() {
		sentences := must.Get(p.ReadUser(t.Context(), u))(t)
		all = append(all, sentences...)
	}
	return all
}

func TestReadingsThatDoNotFitAreRejected(t *testing.T) {
	t.Parallel()
	data := jsonLines(randomLines(rand.New(rand.NewPCG(4, 4)), 20))
	words := runPipeline(t, data, Recipe{VocabularySize: 5, Words: 1})
	for want, params := range map[string]EncodeParams{
		"was not imported at the byte level":                       {Level: text.ByteLevel},
		"vocabulary size is 9; expected none at the byte le":       {Level: text.ByteLevel, VocabularySize: 9},
		`level "rune": expected one of word, byte, image, subword`: {Level: "rune", VocabularySize: 9},
	} {
		if _, err := words.Try(Encode, params, taskstest.In(CorpusInput, words.corpus)); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := words.Try(Import, ImportParams{Reading: source.Reading{Sequence: 1001}}); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "sequences of 1001 words; expected 1 to 1000") {
		t.Errorf("long sequences: %v", err)
	}
}
