package datasets

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

// pairLine is one record of a source of pairs.
type pairLine struct {
	User   string `json:"user"`
	Text   string `json:"text"`
	Target string `json:"target"`
}

func jsonPairs(t *testing.T, pairs []pairLine) []byte {
	t.Helper()
	var out []byte
	for _, p := range pairs {
		data := must.Get(json.Marshal(p))(t)
		out = append(append(out, data...), '\n')
	}
	return out
}

func randomPairs(rng *rand.Rand, n int) []pairLine {
	texts, targets := randomLines(rng, n), randomLines(rng, n)
	pairs := make([]pairLine, n)
	for i := range pairs {
		pairs[i] = pairLine{texts[i].User, texts[i].Text, targets[i].Text}
	}
	return pairs
}

// A pair is one sentence: begin, the words of the text, the separator, those of the target, end.
func TestAPairIsOneSentence(t *testing.T) {
	t.Parallel()
	data := jsonPairs(t, []pairLine{
		{"ann", "Good morning", "guten Morgen"},
		{"ann", "one two three four", "eins zwei drei vier"}, // both texts are cut
		{"ann", "yes", "ja"},
	})
	for _, c := range []struct {
		reading    source.Reading
		vocabulary int
		want       []string
	}{
		{source.Reading{Sequence: 3, Pairs: true}, 12, []string{
			"<begin> good morning <end> guten morgen <end>", "<begin> one two three <end> eins zwei drei", "<begin> yes <end> ja <end>"}},
		{source.Reading{Level: text.ByteLevel, Sequence: 4, Pairs: true}, 0, []string{
			"<begin> G o o d <end> g u t e", "<begin> o n e   <end> e i n s", "<begin> y e s <end> j a <end>"}},
	} {
		p := runPipeline(t, data, Recipe{Reading: c.reading, VocabularySize: c.vocabulary, Words: 1})
		vocabulary := must.Get(text.ParseVocabulary(p.parts.Blob(text.VocabularyBlob)))(t)
		var got []string
		for _, sentence := range everyUser(t, p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}), population.ByUser)) {
			var words []string
			for _, token := range sentence {
				words = append(words, vocabulary.Words[token])
			}
			got = append(got, strings.Join(words, " "))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q, want %q", c.reading, got, c.want)
		}
		if n := len(strings.Split(string(p.parts.Blob(text.VocabularyBlob)), "\n")) - 1; n != vocabulary.Size() || strings.Count(string(p.parts.Blob(text.VocabularyBlob)), "<end>") != 1 {
			t.Errorf("%+v: the separator is a word of the vocabulary", c.reading)
		}
	}
}

func TestSurveyMatchesTasksForPairs(t *testing.T) {
	t.Parallel()
	data := jsonPairs(t, randomPairs(rand.New(rand.NewPCG(5, 5)), 150))
	words, bytes, share := smallRecipe, smallRecipe, smallRecipe
	words.Pairs, bytes.Pairs, share.Pairs = true, true, true
	bytes.Level, bytes.VocabularySize, bytes.Words = text.ByteLevel, 0, 300
	share.TrainShare, share.Sequence, share.VocabularySize = 0.5, 4, 20
	recipes := []Recipe{words, bytes, share}
	for i, p := range checkSurvey(t, data, recipes) {
		r := recipes[i]
		for _, s := range everyUser(t, p.open(t, p.partition(population.PartitionParams{Partition: population.IID, Words: r.Words, Seed: 1}), population.IID)) {
			at, longest := slices.Index(s, text.Separator), r.Complete().Sequence
			if at < 2 || at > 1+longest || text.WordsOf(s)-at < 1 || text.WordsOf(s)-at > longest {
				t.Fatalf("%+v: a pair of %d words, separated at %d", r.Reading, text.WordsOf(s), at)
			}
		}
	}
}

func TestPairsThatDoNotFitAreRejected(t *testing.T) {
	t.Parallel()
	const good = `{"user":"ann","text":"yes","target":"ja"}` + "\n"
	for line, want := range map[string]string{
		`{"user":"ann","text":"yes"}`:                             `line 2: "target" is missing; expected {"user": "…", "text": "…", "target": "…"}`,
		`{"user":"ann","text":"yes","target":" "}`:                `line 2: "target" " " holds no words`,
		`{"user":"ann","target":"ja"}`:                            `line 2: "text" is missing; expected {"user": "…", "text": "…", "target": "…"}`,
		`{"user":"ann","text":"yes","target":3}`:                  `line 2: "target" is a JSON number, not a string`,
		`{"user":"ann","text":"yes","target":"ja` + "\xff" + `"}`: `line 2: byte 40 is not valid UTF-8`,
	} {
		var err error
		for _, fault := range (source.Reading{Pairs: true}).Records(t.Context(), []source.File{fileOf("a.jsonl", []byte(good+line))}, source.Limits{}) {
			err = fault
		}
		var fault *source.Error
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v; want an error with %q", line, err, want)
		}
	}
	must.Say(t, (source.Reading{Level: text.ImageLevel, Pairs: true}).Check(), "pairs at the image level")
	pairs := smallRecipe
	pairs.Pairs = true
	if _, err := Survey(t.Context(), []source.File{fileOf("data", []byte(good))}, source.Limits{}, []Recipe{pairs, smallRecipe}); err == nil || !strings.Contains(err.Error(), "as pairs and as texts alone") {
		t.Errorf("a source read both ways: error %v", err)
	}
}

func TestAPairHasItsSeparatorBetweenItsTexts(t *testing.T) {
	t.Parallel()
	for _, level := range []text.Level{text.WordLevel, text.ByteLevel} {
		for _, content := range []string{"yes", strings.Repeat("a b ", 20)} {
			l := newLexicon(source.Reading{Level: level, Sequence: 9, Pairs: true}, faults.Params{})
			words, _ := l.sentence(0, content+source.PairMark+content)
			if at := slices.Index(words, l.separator); at < 1 || at > 9 || len(words)-at < 2 || len(words)-at > 10 {
				t.Errorf("%q has %d numbers at the %s level, the separator at %d", content, len(words), level, at)
			}
		}
	}
}
