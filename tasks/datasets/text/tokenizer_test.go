package text

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestTokenizerKeepsWordsAndPunctuationApart(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Hello, World!":                               "hello|,|world|!",
		"Don't stop; don’t":                           "don't|stop|;|don't",
		"the people's 'own' states'":                  "the|people's|'|own|'|states|'",
		"twenty-one — waged-it":                       "twenty|-|one|—|waged|-|it",
		"$3,000,000.50, or 5%.":                       "$|3,000,000.50|,|or|5|%|.",
		"U.S. v1.2 1,a":                               "u|.|s|.|v1.2|1|,|a",
		"wait... (no)":                                "wait|.|.|.|(|no|)",
		"ÉCOLE Straße ΑΘΗΝΑ":                          "école|straße|αθηνα",
		"日本 naïve é":                                  "日本|naïve|é",
		"co\u00adop zero\u200bwidth":                  "coop|zerowidth",
		"a\u00a0b\tc\x01d\n":                          "a|b|c|d",
		"<unk> x_y":                                   "<|unk|>|x|_|y",
		"don'\u00adt":                                 "don't",
		"\u2764\ufe0flove the \u2764\ufe0f boat":      "\u2764|love|the|\u2764|boat",
		"\u2600\ufe0f\u2600\ufe0f":                    "\u2600|\u2600",
		"\ufe0f \u200d \u200c \u034f \U000e0100":      "",
		"lo\ufe0fve \u845b\U000e0100\u57ce 1\ufe0f,5": "love|\u845b\u57ce|1,5",
		"\u1820\u180b \u115f\u3164a \uffa0":           "\u1820|a",
		" \t\n\u2028":                                 "",
	} {
		if got := strings.Join(Tokenize(text), "|"); got != want {
			t.Errorf("Tokenize(%q) = %s, want %s", text, got, want)
		}
	}
}

// FuzzTokenizer checks the properties that later stages rely on: words are not
// empty, hold no space, are lower case, and tokenize to themselves.
func FuzzTokenizer(f *testing.F) {
	f.Add("Hello, World! don’t 3,000.5 twenty-one")
	f.Add("\u0301a 'tis ''' 1.,2 İ ẞ ǅ \xff\ufffd\u200d")
	f.Fuzz(func(t *testing.T, text string) {
		words := Tokenize(text)
		for _, w := range words {
			if w == "" || strings.ContainsFunc(w, unicode.IsSpace) || strings.ContainsFunc(w, unicode.IsControl) {
				t.Fatalf("word %q of %q", w, text)
			}
		}
		if again := Tokenize(strings.Join(words, " ")); !slices.Equal(again, words) {
			t.Fatalf("%q gives %q, and those give %q", text, words, again)
		}
	})
}
