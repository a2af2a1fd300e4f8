package text

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"

	"coalmine/storage"
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

func TestAByteVocabularyIsFixedAndKnown(t *testing.T) {
	t.Parallel()
	v, err := ParseVocabulary(JoinLines(append(slices.Clone(specials), byteSymbols...)))
	if err != nil || v.Ordinary() != Bytes || v.Level() != ByteLevel {
		t.Fatalf("level %q, %d ordinary tokens (%v)", v.Level(), v.Ordinary(), err)
	}
	for b, want := range map[byte]string{'a': "a", ' ': " ", '~': "~", '\n': "<0x0A>", 0: "<0x00>", 0x7f: "<0x7F>", 0xc3: "<0xC3>"} {
		if got := v.Words[FirstWord+int(b)]; got != want {
			t.Errorf("byte %d is written %q, want %q", b, got, want)
		}
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(byteSymbols)))
	if len(distinct) != Bytes {
		t.Errorf("only %d symbols differ", len(distinct))
	}
	if words := NewVocabulary(append(slices.Clone(specials), "the", "of")); words.Level() != WordLevel {
		t.Error("a vocabulary of words passes for one of bytes")
	}
}

func TestFramingFollowsTheStackOverflowTask(t *testing.T) {
	t.Parallel()
	long := slices.Repeat([]int32{9}, SentenceWords)
	if got := Frame(nil, []int32{7, 8}, SentenceWords); !slices.Equal(got, []int32{Begin, 7, 8, End}) {
		t.Errorf("a short sentence is %v", got)
	}
	if got := Frame(nil, long, SentenceWords); len(got) != SentenceWords+1 || got[0] != Begin || got[SentenceWords] != 9 {
		t.Errorf("a full sentence is %v; it must not have an end", got)
	}
	if got := Frame(nil, long[1:], SentenceWords); len(got) != SentenceWords+1 || got[SentenceWords] != End {
		t.Errorf("a sentence one short of full is %v", got)
	}
}

func TestAVocabularyBeginsWithTheSpecialTokens(t *testing.T) {
	t.Parallel()
	words := []string{"pear", "fig"}
	if _, err := ParseVocabulary([]byte("<pad>\n<unk>\nthe\n")); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("a vocabulary without specials: %v", err)
	}
	v, err := ParseVocabulary(JoinLines(append(slices.Clone(specials), words...)))
	if err != nil || v.Ordinary() != 2 || v.Size() != 6 || v.Words[FirstWord] != "pear" {
		t.Errorf("got %+v (%v)", v, err)
	}
	if bytes.Contains(JoinLines(nil), []byte("\n")) || len(SplitLines(nil)) != 0 {
		t.Error("no words are no lines")
	}
}
