// Package readable writes text for people: names and messages from outside with every character
// visible, and counted nouns in singular or plural.
package readable

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s if all of it is visible, and otherwise s in double quotes with its invisible
// characters escaped as in Go. Texts that differ have different results: a text that begins and
// ends with a double quote, or with a space, is quoted too.
func Text(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	each(s, func(part string, r rune) {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteString(part)
		case isVisible(r):
			b.WriteString(part)
		default:
			b.WriteString(escaped(part, r))
		}
	})
	b.WriteByte('"')
	return b.String()
}

// isPlain reports whether Text returns s unchanged.
func isPlain(s string) bool {
	if strings.HasPrefix(s, " ") || strings.HasSuffix(s, " ") || len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		return false
	}
	return allVisible(s)
}

func allVisible(s string) bool {
	all := true
	each(s, func(_ string, r rune) { all = all && isVisible(r) })
	return all
}

// Lines returns s with its invisible characters escaped, except line breaks and tabs. Lines after
// the first are indented by two spaces, so that none looks like a line of Coalmine.
func Lines(s string) string {
	return strings.ReplaceAll(clean(strings.TrimRight(s, "\n")), "\n", "\n  ")
}

// Brief shortens a message of several lines to one: its first line, and its last, which names the error in
// most programs. Logs and failures of cells have the whole message.
func Brief(s string) string {
	first, rest, more := strings.Cut(strings.TrimRight(s, "\r\n"), "\n")
	if !more {
		return s
	}
	return first + " ... " + strings.TrimSpace(rest[strings.LastIndexByte(rest, '\n')+1:])
}

// clean escapes the invisible characters of a text of several lines. A carriage return before a
// line break is part of it.
func clean(s string) string { return escapeInvisible(strings.ReplaceAll(s, "\r\n", "\n"), escaped) }

// escapeInvisible replaces the invisible characters of a text, except line breaks and tabs.
func escapeInvisible(s string, escape func(part string, r rune) string) string {
	if IsVisible(s) {
		return s
	}
	var b strings.Builder
	each(s, func(part string, r rune) {
		if isVisible(r) || r == '\n' || r == '\t' {
			b.WriteString(part)
		} else {
			b.WriteString(escape(part, r))
		}
	})
	return b.String()
}

// broken stands for a byte that is not valid UTF-8.
const broken = -1

// each calls f with each character of s, and with each byte that is not part of a character.
func each(s string, f func(part string, r rune)) {
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			r = broken
		}
		f(s[:size], r)
		s = s[size:]
	}
}

// isVisible reports whether a character has a shape of its own, or is the ASCII space.
func isVisible(r rune) bool {
	return r != broken && unicode.IsPrint(r) && !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

func escaped(part string, r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r == broken || r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, part[0])
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// Writer returns a writer to a terminal, or to a file that is read as text. It escapes the
// invisible characters, except line breaks and tabs. Write takes whole characters.
func Writer(w io.Writer) io.Writer { return writer{w, clean} }

// JSON returns a writer that receives JSON and writes the same values, with the invisible characters
// of strings escaped. Write takes whole characters.
func JSON(w io.Writer) io.Writer {
	return inStrings(w, func(r rune) string {
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	})
}

// YAML returns a writer that receives JSON and writes the same values as YAML, with the invisible
// characters of strings escaped. Write takes whole characters.
func YAML(w io.Writer) io.Writer {
	return inStrings(w, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
}

// inStrings returns a writer that escapes the invisible characters of JSON, those above U+FFFF by
// beyond. Outside strings JSON has only line breaks and tabs of these, and strings contain neither.
func inStrings(w io.Writer, beyond func(rune) string) io.Writer {
	escape := func(_ string, r rune) string {
		switch {
		case r > 0xffff:
			return beyond(r)
		case r == broken:
			return `\ufffd`
		}
		return fmt.Sprintf(`\u%04x`, r)
	}
	return writer{w, func(s string) string { return escapeInvisible(s, escape) }}
}

// IsVisible reports whether all characters of a text are visible, except for line breaks and tabs.
func IsVisible(s string) bool { return allVisible(strings.NewReplacer("\n", "", "\t", "").Replace(s)) }

type writer struct {
	w     io.Writer
	clean func(string) string
}

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.clean(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// formulas lists the characters that begin a formula in a spreadsheet; some accept the full-width forms.
const formulas = "=+-@\uff1d\uff0b\uff0d\uff20"

// Cell returns the text of a cell of CSV: the result of Text, preceded by an apostrophe if a
// spreadsheet would treat it as a formula, or if it begins with an apostrophe.
func Cell(s string) string {
	s = Text(s)
	if first, _ := utf8.DecodeRuneInString(s); first == '\'' || s != "" && strings.ContainsRune(formulas, first) {
		return "'" + s
	}
	return s
}

var latexEscapes = strings.NewReplacer(
	`\`, `\textbackslash{}`, `&`, `\&`, `%`, `\%`, `$`, `\$`, `#`, `\#`, `_`, `\_`, `{`, `\{`, `}`, `\}`, `~`, `\textasciitilde{}`, `^`, `\textasciicircum{}`,
	`>=`, `$\geq$`, `<=`, `$\leq$`, `<`, `$<$`, `>`, `$>$`, `|`, `$|$`, `±`, `$\pm$`)

// LaTeX returns s for the body of a LaTeX document, on one line.
func LaTeX(s string) string { return latexEscapes.Replace(strings.ReplaceAll(clean(s), "\n", " ")) }

// Count formats a number with its noun: "1 user", "2 users" or "0 users"; "1 canary", "2 canaries".
func Count[N ~int | ~int64 | ~uint64](n N, noun string) string {
	if n != 1 {
		noun = Plural(noun)
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Range returns "c01 to c12", or "c01" if first equals last.
func Range(first, last string) string {
	if first == last {
		return first
	}
	return first + " to " + last
}

func Plural(noun string) string {
	switch {
	case strings.HasSuffix(noun, "y") && !strings.HasSuffix(noun, "ay") && !strings.HasSuffix(noun, "ey"):
		return strings.TrimSuffix(noun, "y") + "ies"
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "sh"):
		return noun + "es"
	}
	return noun + "s"
}

// Percent formats a probability in percent, with a digit more near 0 and 1: "34%", "8.7%", "99.8%".
func Percent(p float64) string {
	if p > 0 && p < 0.1 || p > 0.9 && p < 1 {
		return fmt.Sprintf("%.1f%%", 100*p)
	}
	return fmt.Sprintf("%.0f%%", 100*p)
}

// Share formats a share in percent, with two significant digits: "0.031%", "8.7%", "34%", "100%".
func Share(share float64) string {
	if share >= 0.1 {
		return fmt.Sprintf("%.0f%%", 100*share)
	}
	return fmt.Sprintf("%.2g%%", 100*share)
}

// LikelyEdits returns the maximum number of edits between a mistyped word and the intended one:
// 1 for short words, which have many neighbours.
func LikelyEdits(word string) int { return min(max(1, len(word)/4), 3) }

// DidYouMean ends a message with a suggestion, if there is one.
func DidYouMean(suggestion string) string {
	if suggestion == "" {
		return ""
	}
	return "; did you mean " + suggestion + "?"
}

// Edits returns Levenshtein's distance in bytes, with a swap of two neighbours as one edit. It
// returns a large number for very long words.
func Edits(a, b string) int {
	if len(a) > 100 {
		return len(a)
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// Nearest returns the most similar word of a list, "" if none is similar enough.
func Nearest(mistyped string, words []string) string {
	best, distance := "", LikelyEdits(mistyped)+1
	for _, word := range words {
		if d := Edits(mistyped, word); d < distance {
			best, distance = word, d
		}
	}
	return best
}
