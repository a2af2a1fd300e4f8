package canaries

import (
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// byteVocabulary is that of the byte level, as an encode node has it.
func byteVocabulary() []string {
	symbols := []string{"<pad>", "<unk>", "<begin>", "<end>"}
	for b := range text.Bytes {
		symbols = append(symbols, text.ByteSymbols(string([]byte{byte(b)}))...)
	}
	return symbols
}

// drawBytes runs Draw at the byte level.
func drawBytes(t *testing.T, p DrawParams) (*taskstest.Node, error) {
	t.Helper()
	g := taskstest.NewGraph(t)
	content := strings.Join(byteVocabulary(), "\n") + "\n"
	parts := g.Put("bytes", map[string][]byte{text.VocabularyBlob: []byte(content)})
	return g.Try(Draw, p, taskstest.In(population.PartsInput, parts))
}

func TestCanariesKeepToTheirAlphabetAndFormat(t *testing.T) {
	t.Parallel()
	for _, alphabet := range []Alphabet{Digits, Lower, Letters, Printable} {
		for _, format := range []string{"", "PIN: ##-##"} {
			space := Space{Words: 6, Alphabet: alphabet, Format: format}
			if format != "" {
				space.Words = len(format)
			}
			node := must.Get(drawBytes(t, DrawParams{Seed: 1, Configurations: grid[:2], PerConfiguration: 20, Space: space, HeldBack: 9}))(t)
			seen := map[string]bool{}
			for _, c := range canariesOf(t, node) {
				text := strings.Join(c.Words, "")
				if len(text) != space.Words || seen[text] {
					t.Errorf("%s, format %q: canary %q is of another length, or there already", alphabet, format, text)
				}
				seen[text] = true
				for i := range len(text) {
					fixed := format != "" && format[i] != Blank
					if fixed && text[i] != format[i] || !fixed && !alphabet.Holds(text[i]) {
						t.Errorf("%s, format %q: canary %q differs in byte %d", alphabet, format, text, i)
					}
				}
			}
		}
	}
}

// 2,000 canaries of 5 digits: 10,000 draws in 10 bins, so Pearson's statistic has
// 9 degrees of freedom and exceeds 40 with probability 8e-6. Drawing them
// distinct among 100,000 changes nothing that shows.
func TestSymbolsAreUniform(t *testing.T) {
	t.Parallel()
	p := &DrawParams{Seed: 3, Configurations: grid[:1], PerConfiguration: 2000, Space: Space{Words: 5, Alphabet: Digits}}
	var counts [10]float64
	for _, c := range drawn(t, p, &text.Vocabulary{Words: byteVocabulary()}) {
		for _, symbol := range c.Words {
			counts[symbol[0]-'0']++
		}
	}
	statistic := 0.0
	for _, n := range counts {
		statistic += (n - 1000) * (n - 1000) / 1000
	}
	if statistic > 40 {
		t.Errorf("chi-squared %.1f of %v", statistic, counts)
	}
}

func TestSpacesThatDoNotFitAreRejected(t *testing.T) {
	t.Parallel()
	good := DrawParams{Configurations: grid, PerConfiguration: 1, Space: Space{Words: 5, Alphabet: Digits}}
	for want, space := range map[string]Space{
		`alphabet "hex": expected one of digits`:                               {Words: 5, Alphabet: "hex"},
		`format "##" for canaries of 2 words`:                                  {Words: 2, Format: "##"},
		`format "##" for canaries of 3 bytes`:                                  {Words: 3, Alphabet: Digits, Format: "##"},
		`format "abc" for canaries of 3 bytes`:                                 {Words: 3, Alphabet: Digits, Format: "abc"},
		"6 different canaries of 1 symbol; expected at most half of the 10 se": {Words: 1, Alphabet: Digits},
	} {
		p := good
		p.Space, p.HeldBack = space, 3
		if _, err := drawBytes(t, p); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", space, err, want)
		}
	}
	if _, err := draw(t, taskstest.NewGraph(t), 100, good); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "alphabet digits for a vocabulary of 100 words") {
		t.Errorf("an alphabet over words: %v", err)
	}
}

func TestSequencesAreAsManyAsTheChoicesMake(t *testing.T) {
	t.Parallel()
	for _, space := range []Space{
		{Words: 3}, {Words: 5, Alphabet: Lower}, {Words: 9, Alphabet: Digits, Format: "a ##-#.#!"}, {Words: 4, Alphabet: Printable, Format: "####"},
	} {
		for prefix := range space.Words + 1 {
			want := 1.0
			for _, among := range space.Choices(text.Bytes)[prefix:] {
				want *= float64(len(among))
			}
			if got := space.Sequences(text.Bytes, prefix); got != want {
				t.Errorf("%+v after %d: %v sequences, want %v", space, prefix, got, want)
			}
		}
	}
}

// A space is looked up by the symbols of its canaries.
func TestThePhraseOfASpaceHasItsChoices(t *testing.T) {
	t.Parallel()
	for _, space := range []Space{
		{Words: 5, Alphabet: Lower}, {Words: 9, Alphabet: Digits, Format: "a ##-#.#!"}, {Words: 4, Alphabet: Listed, Symbols: "xyz", Format: "p# #"},
	} {
		phrase := space.Phrase()
		for i, choices := range space.Choices(text.Bytes) {
			among := phrase.Random
			if phrase.Fixed[i] != "" {
				among = phrase.Fixed[i : i+1]
			}
			var want []string
			for _, token := range choices {
				want = append(want, string([]byte{byte(token - text.FirstWord)}))
			}
			if !slices.Equal(among, want) {
				t.Errorf("%+v: %q at %d, want %q", space, among, i, want)
			}
		}
	}
	for _, space := range []Space{{Words: 3}, {Words: 9, Alphabet: Digits, Format: "my ##", Target: "m ##"}} {
		if p := space.Phrase(); len(p.Fixed) > 0 {
			t.Errorf("%+v is looked for as %q", space, p)
		}
	}
	words := Space{Words: 3, Format: "my # dish", Symbols: "red green"}.Phrase()
	if !slices.Equal(words.Fixed, []string{"my", "", "dish"}) || !slices.Equal(words.Random, []string{"red", "green"}) {
		t.Errorf("words %q", words)
	}
}
