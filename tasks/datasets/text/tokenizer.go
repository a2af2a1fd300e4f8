package text

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tokenizer splits a text into words, lower-cased rune by rune:
//
//   - A run of letters, marks and numbers of any script is one word.
//   - An apostrophe between two of these belongs to the word, the curved one as
//     the straight: don’t gives "don't". At an edge it is a separate word.
//   - A point or comma between two digits belongs to the word: "3,000.5".
//   - Every other visible character is a word, including hyphens:
//     "twenty-one" gives "twenty", "-", "one", and "…" one word, "..." three.
//   - Spaces and control characters only separate. Format characters (soft
//     hyphens, joiners, byte order marks) and all others that Unicode calls
//     default-ignorable (variation selectors, fillers, the combining grapheme
//     joiner) are dropped, because they are invisible. FirstRules drop only format characters.
//
// Nothing is normalized beyond that (no NFC, no stemming). Tokenizing the words
// joined by spaces gives the same words again. The zero value is ready; it
// keeps a buffer and must not be used by several goroutines at once.
type Tokenizer struct {
	word     []byte
	KeepCase bool // a planted fault: nothing is lower-cased
	First    bool // read by FirstRules
}

// Words yields the words of text. Each is valid only until the next. Bytes that
// are not UTF-8 read as U+FFFD.
func (t *Tokenizer) Words(text string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		t.word = t.word[:0]
		before := rune(-1) // the last rune of the word so far
		for at, size := 0, 0; at < len(text); at += size {
			var r rune
			r, size = decode(text[at:])
			joins := len(t.word) > 0 && t.joinsWord(before, r, text[at+size:])
			switch {
			case isFormat(r, t.First):
				continue
			case joins || isWordRune(r):
				t.word = utf8.AppendRune(t.word, t.plain(r))
				before = r
				continue
			}
			if len(t.word) > 0 && !yield(t.word) {
				return
			}
			t.word = t.word[:0]
			if isSeparator(r) {
				continue
			}
			if t.word = utf8.AppendRune(t.word, t.plain(r)); !yield(t.word) {
				return
			}
			t.word = t.word[:0]
		}
		if len(t.word) > 0 {
			yield(t.word)
		}
	}
}

// Tokenize returns the words of text, by CurrentRules.
func Tokenize(text string) []string { return CurrentRules.Tokenize(text) }

// Tokenize returns the words of text by a version of the rules.
func (r Rules) Tokenize(text string) []string {
	t := Tokenizer{First: r.First()}
	var words []string
	for w := range t.Words(text) {
		words = append(words, string(w))
	}
	return words
}

// HasWord reports whether a text has a word, by the first version of the rules if first is set.
func HasWord(text string, first bool) bool {
	t := Tokenizer{First: first}
	for range t.Words(text) {
		return true
	}
	return false
}

// decode is utf8.DecodeRuneInString with a fast path for ASCII.
func decode(s string) (rune, int) {
	if s[0] < utf8.RuneSelf {
		return rune(s[0]), 1
	}
	return utf8.DecodeRuneInString(s)
}

// joinsWord reports whether r, between before and rest, belongs to the word that ends with before.
func (t *Tokenizer) joinsWord(before, r rune, rest string) bool {
	switch r {
	case '\'', '’':
		return isWordRune(t.firstVisible(rest))
	case '.', ',':
		return unicode.IsDigit(before) && unicode.IsDigit(t.firstVisible(rest))
	}
	return false
}

// firstVisible returns the first character that is not dropped.
func (t *Tokenizer) firstVisible(s string) rune {
	for _, r := range s {
		if !isFormat(r, t.First) {
			return r
		}
	}
	return -1
}

// TrimLeft drops the characters before the first that belongs to a word, by FirstRules or not.
func TrimLeft(text string, first bool) string {
	return strings.TrimLeftFunc(text, func(r rune) bool { return isSeparator(r) || isFormat(r, first) })
}

func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}

// isFormat reports whether a rune is dropped: format characters and, except by FirstRules, all
// characters with Unicode's property Default_Ignorable_Code_Point (UAX #44).
func isFormat(r rune, first bool) bool {
	if r < utf8.RuneSelf {
		return false
	}
	return unicode.Is(unicode.Cf, r) || !first && unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

func isSeparator(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// plain lower-cases a rune and straightens apostrophes.
func (t *Tokenizer) plain(r rune) rune {
	if r == '’' {
		return '\''
	}
	if t.KeepCase {
		return r
	}
	return unicode.ToLower(r)
}
