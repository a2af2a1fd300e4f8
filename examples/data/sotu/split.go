package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// split cuts a text into sentences by these rules:
//
//   - A sentence ends at a run of . ? ! and the closing quotes and brackets after it,
//     if a space follows and then anything but a lower-case letter.
//   - It also ends at such a run without a space when a lower-case letter comes
//     before and an upper-case letter after ("workers.We").
//   - It does not end at a single point after an abbreviation or an initial:
//     "Mr. Speaker", "John F. Kennedy", "No. 7".
//
// A sentence that ends in "U.S." therefore runs into the next one.
func split(text string) []string {
	var out []string
	start := 0
	for i := 0; i < len(text); {
		if !strings.ContainsRune(".?!", rune(text[i])) {
			i++
			continue
		}
		stop := i
		end := skip(text, skip(text, i, ".?!"), `"')]”’`)
		i = end
		if ends(text, start, stop, end) {
			out = append(out, strings.TrimSpace(text[start:end]))
			start = end
		}
	}
	if rest := strings.TrimSpace(text[start:]); rest != "" {
		out = append(out, rest)
	}
	return out
}

// skip returns the first position from i on with none of the characters.
func skip(text string, i int, characters string) int {
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		if !strings.ContainsRune(characters, r) {
			break
		}
		i += size
	}
	return i
}

// ends reports whether the sentence from start ends with text[stop:end], stops and
// the closing marks after them.
func ends(text string, start, stop, end int) bool {
	after, _ := utf8.DecodeRuneInString(text[end:])
	switch {
	case end == len(text):
		return true
	case text[stop] == '.' && end == stop+1 && abbreviated(text[start:stop]):
		return false
	case after == ' ':
		next, _ := utf8.DecodeRuneInString(text[end+1:])
		return !unicode.IsLower(next)
	}
	before, _ := utf8.DecodeLastRuneInString(text[:stop])
	return unicode.IsLower(before) && unicode.IsUpper(after)
}

// abbreviated reports whether the point after s belongs to an abbreviation, the last
// word of s.
func abbreviated(s string) bool {
	from := strings.LastIndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) }) + 1
	word := s[from:]
	if len(word) == 1 && word != "I" && unicode.IsUpper(rune(word[0])) {
		return true
	}
	return abbreviations[strings.ToLower(word)]
}

// abbreviations occur in the addresses before a capital or a number.
var abbreviations = setOf(`mr mrs ms messrs dr prof rev hon gen maj col capt lieut lt
	gov sen rep st no nos art arts sec secs ch chap vol stat pp viz vs jr sr ph
	jan feb mar apr jun jul aug sept oct nov dec`)

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}
