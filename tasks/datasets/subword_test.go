package datasets

import (
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/subwords"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

func tokenizerFile(t testing.TB, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile("subwords/testdata/" + name + ".json"))(t)
}

// subwordRecipe reads by a tokenizer of the tests of package subwords.
func subwordRecipe(t testing.TB, name string) Recipe {
	t.Helper()
	data := tokenizerFile(t, name)
	tokenizer := must.Get(subwords.Parse(data))(t)
	r := Recipe{Seed: 7, VocabularySize: len(tokenizer.Tokens()), TestFraction: 0.1, ValidationFraction: 0.05, Words: 60, HeldOutUsers: 0.1}
	r.Level, r.Tokenizer = text.SubwordLevel, storage.DigestOf(data)
	r.Reading = r.WithTokenizer(tokenizer)
	return r
}

// withoutTokenizer is a recipe as the parameters of tasks have it.
func withoutTokenizer(r Recipe) Recipe {
	r.Reading = r.WithTokenizer(nil)
	return r
}

func TestSurveyMatchesTasksForSubwords(t *testing.T) {
	t.Parallel()
	lines := randomLines(rand.New(rand.NewPCG(4, 4)), 150)
	for i := range lines {
		lines[i].Text = strings.ReplaceAll(lines[i].Text, "w", "With the ")
	}
	data := jsonLines(lines)
	for _, name := range []string{"gpt2", "llama2", "t5"} {
		r := subwordRecipe(t, name)
		r.Phrases = []Phrase{{Fixed: []string{"the", ""}}, {Fixed: []string{"the", ""}, Random: []string{"with", "of"}}}
		r.Named = "the antidisestablishmentarianism"
		short := r
		short.Sequence, short.Words, short.Named, short.Phrases = 5, 20, "", nil
		facts := must.Get(Survey(t.Context(), []source.File{fileOf("data", data)}, source.Limits{}, []Recipe{r, short}))(t)
		if p := facts[0].Phrases; facts[0].Missing != "antidisestablishmentarianism" || len(p) != 2 || p[0] == 0 || p[1] > p[0] {
			t.Errorf("%s: missing %q, phrases %v", name, facts[0].Missing, p)
		}
		facts[0].Missing, facts[0].Phrases = "", nil
		for i, r := range []Recipe{r, short} {
			p := runPipeline(t, data, withoutTokenizer(r), tokenizerFile(t, name))
			var want Facts
			p.corpus.DecodeMetrics(&want.Source)
			p.parts.DecodeMetrics(&want.Parts)
			p.balanced.DecodeMetrics(&want.Balance)
			if !reflect.DeepEqual(facts[i], want) {
				t.Errorf("%s: surveyed %+v, the tasks found %+v", name, facts[i], want)
			}
			if want.Parts.UnknownWords != 0 || want.Parts.DistinctWords != r.VocabularySize {
				t.Errorf("%s: %d unknown and %d distinct tokens; expected 0 and %d", name, want.Parts.UnknownWords, want.Parts.DistinctWords, r.VocabularySize)
			}
		}
	}
}

func TestSentencesOfSubwordsSpellTheTexts(t *testing.T) {
	t.Parallel()
	texts := []string{"One MAN, one vote.", "na\u00efve \u2014 no", "two  spaces\nand a line"}
	for _, name := range []string{"gpt2", "llama2"} {
		var lines []line
		for _, text := range texts {
			lines = append(lines, line{"ann", text})
		}
		r := subwordRecipe(t, name)
		r.Words, r.TestFraction, r.ValidationFraction, r.HeldOutUsers = 1, 0, 0, 0
		p := runPipeline(t, jsonLines(lines), withoutTokenizer(r), tokenizerFile(t, name))
		v, err := text.ParseVocabulary(p.parts.Blob(text.VocabularyBlob))
		if err != nil || v.Level() != text.SubwordLevel || v.Ordinary() != r.VocabularySize {
			t.Fatalf("%s: level %s, %d ordinary tokens, error %v", name, v.Level(), v.Ordinary(), err)
		}
		var got []string
		for _, s := range everyUser(t, p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}), population.ByUser)) {
			words := s[1 : 1+text.WordsOf(s)]
			got = append(got, v.Text(words))
			for cut := range words {
				if context, continuation := v.Texts(words[:cut], words[cut:]); context+continuation != got[len(got)-1] {
					t.Errorf("%s: cut at %d: %q and %q; expected %q", name, cut, context, continuation, got[len(got)-1])
				}
			}
		}
		if !slices.Equal(got, texts) {
			t.Errorf("%s: got %q, want %q", name, got, texts)
		}
	}
}

func TestTokenizersThatDoNotFitAreRejected(t *testing.T) {
	t.Parallel()
	r := subwordRecipe(t, "gpt2")
	data := jsonLines([]line{{"ann", "good day"}})
	if _, err := Survey(t.Context(), []source.File{fileOf("data", data)}, source.Limits{}, []Recipe{withoutTokenizer(r)}); err == nil || !strings.Contains(err.Error(), "was not read") {
		t.Errorf("a survey without the tokenizer: %v", err)
	}
	g := taskstest.NewGraph(t)
	src := []storage.Digest{g.Import(data)}
	g.Import(tokenizerFile(t, "gpt2"))
	corpus := g.Run(Import, r.Import(src, source.Limits{}))
	wrong := r.Encode()
	wrong.VocabularySize--
	if _, err := g.Try(Encode, wrong, taskstest.In(CorpusInput, corpus)); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "set vocabulary.size, now 486, to that") {
		t.Errorf("a wrong size: %v", err)
	}
	damaged := r.Import(src, source.Limits{})
	damaged.Tokenizer = g.Import([]byte(`{"model":{"type":"WordPiece"}}`))
	if _, err := g.Try(Import, damaged); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), `model "WordPiece"`) {
		t.Errorf("another model: %v", err)
	}
	for _, reading := range []source.Reading{{Level: text.SubwordLevel}, {Tokenizer: r.Tokenizer}} {
		if _, err := g.Try(Import, ImportParams{Reading: reading, Sources: src}); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "a tokenizer at the") {
			t.Errorf("%+v: %v", reading, err)
		}
	}
}
