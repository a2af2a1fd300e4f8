package canaries

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/text"
)

// For any words and format, a canary of whole words is the format with one of the words in each
// place, all canaries have the length of the space, and no two agree.
func TestWholeWordCanariesFillFormatWithWords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(2, 4).Draw(t, "length")
		words := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.RuneFrom([]rune("abc")), length, length, -1), 3, 6, rapid.ID[string]).Draw(t, "words")
		format := rapid.SampledFrom([]string{"say # or #", "##", "# #.", "x#y#z"}).Draw(t, "format")
		space := Space{Words: len(format) + 2*(length-1), Alphabet: Listed, Symbols: strings.Join(words, ""), SymbolBytes: length, Format: format}
		p := &DrawParams{Seed: rapid.Uint64().Draw(t, "seed"), Configurations: grid[:1], PerConfiguration: 4, Space: space}
		list := must.Get(drawAll(p, &text.Vocabulary{Words: byteVocabulary()}))(t)
		var possible []string
		for _, a := range words {
			for _, b := range words {
				possible = append(possible, strings.Replace(strings.Replace(format, "#", a, 1), "#", b, 1))
			}
		}
		if n := space.Sequences(text.Bytes, 0); n != float64(len(possible)) {
			t.Errorf("%v sequences, expected %d", n, len(possible))
		}
		seen := map[string]bool{}
		for _, c := range list {
			text := strings.Join(c.Words, "")
			if !slices.Contains(possible, text) || len(c.Tokens) != space.Words || seen[text] {
				t.Errorf("canary %q of %q in %q, of %d bytes", text, words, format, space.Words)
			}
			seen[text] = true
		}
	})
}

// 3,000 draws among 6 words: Pearson's statistic has 5 degrees of freedom and exceeds 35 with
// probability 1.5e-6. Words that begin alike are as likely as others.
func TestWholeWordsAreUniform(t *testing.T) {
	t.Parallel()
	space := Space{Words: 3, Alphabet: Listed, Symbols: "abcabdabeabfbcdxyz", SymbolBytes: 3, Format: "#"}
	draw, row := space.Sampler(space.Choices(text.Bytes), 0), make([]int32, 3)
	counts := map[string]float64{}
	rng := stream(7, 0)
	for range 3000 {
		draw(rng, row)
		counts[string([]byte{byte(row[0] - text.FirstWord), byte(row[1] - text.FirstWord), byte(row[2] - text.FirstWord)})]++
	}
	statistic := 0.0
	for _, n := range counts {
		statistic += (n - 500) * (n - 500) / 500
	}
	if len(counts) != 6 || statistic > 35 {
		t.Errorf("chi-squared %.1f of %v", statistic, counts)
	}
}

// The secret of a pair is the same words in both texts.
func TestTheTargetOfAPairRepeatsWholeWords(t *testing.T) {
	t.Parallel()
	space := Space{Words: len("say # #") + 4 + 1 + len("# is #") + 4, Alphabet: Listed, Symbols: "catdogcow", SymbolBytes: 3, Format: "say # #", Target: "# is #"}
	must.Do(t, space.Check(text.Bytes))
	list := must.Get(drawAll(&DrawParams{Configurations: grid[:1], PerConfiguration: 4, Space: space}, &text.Vocabulary{Words: byteVocabulary()}))(t)
	for _, c := range list {
		text := strings.Join(c.Words, "")
		source, target := text[len("say "):len("say ")+7], text[len(text)-len("cat is cat"):]
		if target != source[:3]+" is "+source[4:] {
			t.Errorf("canary %q", text)
		}
	}
}

func TestCutsReportsPrefixesWithinWords(t *testing.T) {
	t.Parallel()
	space := Space{Words: 9, Alphabet: Listed, Symbols: "catdog", SymbolBytes: 3, Format: "a # #"}
	var cut []int
	for n := range space.Words {
		if space.Cuts(n) {
			cut = append(cut, n)
		}
	}
	if want := []int{3, 4, 7, 8}; !slices.Equal(cut, want) || space.DefaultPrefix() != 2 {
		t.Errorf("prefixes %v cut a word, expected %v; the default is %d", cut, want, space.DefaultPrefix())
	}
	if space.Format, space.Words = "", 6; space.DefaultPrefix() != 3 {
		t.Errorf("the default prefix of words alone is %d, expected the first word", space.DefaultPrefix())
	}
}

// At the subword level words are tokens with a space before.
func TestCanariesOfSubwordsAreWordsOfOneTokenEach(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"Ġ", "▁"} {
		v := text.NewVocabulary(append(text.Specials(), "blue", mark, mark+"my", mark+"pin", mark+"red", mark+"blue", mark+"green"))
		if v.Level() != text.SubwordLevel {
			t.Fatalf("%s: level %s", mark, v.Level())
		}
		p := DrawParams{Seed: 1, Configurations: grid[:1], PerConfiguration: 4, Space: Space{Words: 5, Format: "my pin # # #", Symbols: "blue green red"}}
		for _, c := range drawn(t, &p, v) {
			content := v.Text(c.Tokens)
			if !slices.Equal(c.Words[:2], []string{mark + "my", mark + "pin"}) || strings.Count(content, " ") < 4 {
				t.Errorf("canary %q is %q", content, c.Words)
			}
			for _, token := range c.Tokens[2:] {
				if token < text.FirstWord+4 {
					t.Errorf("canary %q has a random token %q that is no word", content, v.Words[token])
				}
			}
		}
		p.Space.Symbols = "blue yellow"
		_, err := drawAll(&p, v)
		must.Say(t, err, "yellow")
	}
}
