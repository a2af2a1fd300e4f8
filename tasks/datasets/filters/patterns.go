package filters

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/registry"
)

// Pattern is a kind of personal text: one of the constants, or the user's own expression for it.
type Pattern string

// Named patterns.
const (
	Card  Pattern = "card"
	SSN   Pattern = "ssn"
	Phone Pattern = "phone"
	Email Pattern = "email"
)

// Definition describes a named pattern.
type Definition struct {
	Pattern Pattern
	// Summary describes the pattern in one line.
	Summary string

	// expression is a regular expression. It has gap wherever tokenized words are joined by a
	// space.
	expression string
	// possible reports quickly whether a text may have a match.
	possible func(text string) bool
	// valid checks the digits of a match; nil if every match counts.
	valid func(digits string) bool
}

// gap stands for a space in the expression of a pattern: optional at the word level, absent at the
// byte level.
const gap = "~"

var definitions = registry.New("pattern", func(f Definition) Pattern { return f.Pattern },
	Definition{
		Pattern:    Card,
		Summary:    "13 to 19 digits in one piece, or 16 in fours or 15 as 4-6-5 with spaces or hyphens between, whose Luhn sum is right (ISO/IEC 7812-1, annex B); one in ten other such numbers has that too",
		expression: `\d{13,19}|\d{4}(?: \d{4}){3}|\d{4}(?:~-~\d{4}){3}|\d{4} \d{6} \d{5}|\d{4}~-~\d{6}~-~\d{5}`,
		possible:   hasDigits(13),
		valid:      luhn,
	},
	Definition{
		Pattern:    SSN,
		Summary:    "a social security number of the United States: 3-2-4 digits with hyphens or spaces between; no area 000, 666 or 900 to 999, group 00 or serial 0000, which are never given out",
		expression: `\d{3}~-~\d{2}~-~\d{4}|\d{3} \d{2} \d{4}`,
		possible:   hasDigits(9),
		valid:      givenOut,
	},
	Definition{
		Pattern: Phone,
		Summary: "a phone number: 3-3-4 digits with hyphens, points or spaces between, the first three perhaps in brackets and +1 or 1 before them; or + and 8 to 15 digits, perhaps in groups",
		expression: `(?:\+?~1(?:~[-.]~| ))?(?:\(~\d{3}~\)(?:~-~| ?)|\d{3}(?:~[-.]~| ))\d{3}(?:~[-.]~| )\d{4}` +
			`|\+~\d(?:(?:~[-.]~| )?\d){7,14}`,
		possible: hasDigits(8),
	},
	Definition{
		Pattern:    Email,
		Summary:    "a mail address: letters, digits and ._%+- before the @, a domain of letters, digits, points and hyphens after it",
		expression: `[A-Za-z0-9]+(?:~[._%+-]~[A-Za-z0-9]+)*~@~[A-Za-z0-9]+(?:~[.-]~[A-Za-z0-9]+)*~\.~[A-Za-z]{2,}`,
		possible:   func(text string) bool { return strings.Contains(text, "@") },
	},
)

// Definitions lists the named patterns.
func Definitions() []Definition { return definitions.Entries() }

// Choices lists the named patterns for an experiment file.
func (Pattern) Choices() []string { return definitions.Words() }

// maxExpression is the largest length of the user's own expressions, in bytes.
const maxExpression = 1000

// PatternSet is a set of patterns. It is safe for concurrent use.
type PatternSet struct{ finders []finder }

// finder looks for one pattern: in running text, and in words joined by spaces.
type finder struct {
	pattern       Pattern
	running, tied *regexp.Regexp
	// whole rejects matches inside a longer number or word.
	whole    bool
	possible func(text string) bool
	valid    func(digits string) bool
}

// NewPatterns returns the set of the named patterns and of own expressions, in the syntax of RE2. It is an
// error if an expression is invalid, matches the empty text or is longer than 1,000 bytes, or if a
// pattern is unknown or given twice.
func NewPatterns(named []Pattern, own []string) (*PatternSet, error) {
	s := new(PatternSet)
	for _, p := range named {
		f, err := definitions.Find(p)
		if err != nil {
			return nil, err
		}
		s.finders = append(s.finders, f.finder())
	}
	for _, expression := range own {
		f, err := ownFinder(expression)
		if err != nil {
			return nil, err
		}
		s.finders = append(s.finders, f)
	}
	for i, f := range s.finders {
		if slices.ContainsFunc(s.finders[:i], func(g finder) bool { return g.pattern == f.pattern }) {
			return nil, fmt.Errorf("pattern %q is given twice; remove one", f.pattern)
		}
	}
	return s, nil
}

func (f Definition) finder() finder {
	compile := func(space string) *regexp.Regexp {
		return regexp.MustCompile(strings.ReplaceAll(f.expression, gap, space))
	}
	return finder{pattern: f.Pattern, running: compile(""), tied: compile(" ?"), whole: true, possible: f.possible, valid: f.valid}
}

func ownFinder(expression string) (finder, error) {
	if len(expression) > maxExpression {
		return finder{}, fmt.Errorf("pattern %.50q has %d bytes; expected at most %d", expression, len(expression), maxExpression)
	}
	e, err := regexp.Compile(expression)
	if err != nil {
		return finder{}, fmt.Errorf("pattern %q: %w; expected a regular expression in the syntax of RE2", expression, err)
	}
	if e.MatchString("") {
		return finder{}, fmt.Errorf("pattern %q matches the empty text, which is everywhere; expected one that needs at least one character", expression)
	}
	return finder{pattern: Pattern(expression), running: e, tied: e}, nil
}

// Patterns lists the patterns of the set, named ones first.
func (s *PatternSet) Patterns() []Pattern {
	return lists.Map(s.finders, func(f finder) Pattern { return f.pattern })
}

// Span is a finding: the bytes or words [Start, End).
type Span struct {
	Pattern    Pattern
	Start, End int
}

// Wanted is a set of patterns to look for. Without a pattern nothing is looked for.
type Wanted struct {
	Named []Pattern `json:"named,omitempty"`
	Own   []string  `json:"own,omitempty"`
}

// Equal reports whether two sets are the same.
func (w Wanted) Equal(v Wanted) bool {
	return slices.Equal(w.Named, v.Named) && slices.Equal(w.Own, v.Own)
}

// Empty reports whether nothing is looked for.
func (w Wanted) Empty() bool { return len(w.Named)+len(w.Own) == 0 }

// Find returns the matches in a text, in bytes, by position; no two overlap. Of two overlapping
// matches it keeps the first, then the longer, then the one with the earlier pattern in the set.
// Named patterns match only without an adjacent ASCII letter or digit.
func (s *PatternSet) Find(text string) []Span {
	return s.find(text, func(f finder) *regexp.Regexp { return f.running })
}

// FindWords is Find for the words of text.Tokenizer, in whole words. The text between words is
// lost: "write to jo. Doe@x.org now" and "jo.doe@x.org" have the same words, and both are found as
// the latter. Own expressions see the words joined by single spaces.
func (s *PatternSet) FindWords(words []string) []Span {
	spans := s.find(strings.Join(words, " "), func(f finder) *regexp.Regexp { return f.tied })
	word, start := 0, 0 // current word and its start
	at := func(offset int) int {
		for start+len(words[word]) < offset {
			start += len(words[word]) + 1
			word++
		}
		return word
	}
	for i, span := range spans {
		spans[i].Start, spans[i].End = at(span.Start+1), at(span.End)+1
	}
	return slices.CompactFunc(spans, func(a, b Span) bool { return b.Start < a.End }) // two matches in one word
}

func (s *PatternSet) find(text string, expression func(finder) *regexp.Regexp) []Span {
	var all []Span
	for _, f := range s.finders {
		all = f.appendTo(all, text, expression(f))
	}
	slices.SortStableFunc(all, func(a, b Span) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	kept, end := all[:0], 0
	for _, span := range all {
		if span.Start >= end {
			kept, end = append(kept, span), span.End
		}
	}
	return kept
}

// appendTo appends the findings of one pattern. After a rejected match, the next may begin one byte
// later.
func (f finder) appendTo(all []Span, text string, e *regexp.Regexp) []Span {
	if !f.whole { // \b and ^ of an expression see the whole text
		for _, m := range e.FindAllStringIndex(text, -1) {
			all = append(all, Span{f.pattern, m[0], m[1]})
		}
		return all
	}
	for at := 0; at < len(text) && f.possible(text[at:]); {
		m := e.FindStringIndex(text[at:])
		if m == nil {
			break
		}
		span := Span{f.pattern, at + m[0], at + m[1]}
		if f.accepts(text, span) {
			all, at = append(all, span), span.End
		} else {
			at = span.Start + 1
		}
	}
	return all
}

func (f finder) accepts(text string, s Span) bool {
	if s.Start > 0 && isAlphanumeric(text[s.Start-1]) || s.End < len(text) && isAlphanumeric(text[s.End]) {
		return false
	}
	return f.valid == nil || f.valid(digits(text[s.Start:s.End]))
}

// hasDigits returns a function that reports whether a text has at least n digits.
func hasDigits(n int) func(text string) bool {
	return func(text string) bool {
		found := 0
		for i := 0; i < len(text) && found < n; i++ {
			if isDigit(text[i]) {
				found++
			}
		}
		return found == n
	}
}

func isAlphanumeric(b byte) bool {
	return isDigit(b) || 'a' <= b|0x20 && b|0x20 <= 'z'
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func digits(text string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, text)
}

func luhn(digits string) bool { return LuhnSum([]byte(digits))%10 == 0 }

// LuhnSum returns the sum of a number's digits with every second one from the right doubled, which then counts
// as the sum of its own digits (ISO/IEC 7812-1, annex B). It is a multiple of ten for a card number. Other
// characters are skipped.
func LuhnSum(number []byte) int {
	sum, doubled := 0, false
	for _, b := range slices.Backward(number) {
		if b < '0' || b > '9' {
			continue
		}
		d := int(b - '0')
		if doubled {
			d = 2*d/10 + 2*d%10
		}
		sum, doubled = sum+d, !doubled
	}
	return sum
}

// givenOut reports whether a social security number may be issued (Social Security Administration,
// RM 10201.035).
func givenOut(digits string) bool {
	area, group, serial := digits[:3], digits[3:5], digits[5:]
	return area != "000" && area != "666" && area[0] != '9' && group != "00" && serial != "0000"
}
