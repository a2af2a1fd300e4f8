package filters_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/text"
)

func newSet(t *testing.T, named []filters.Pattern, own ...string) *filters.PatternSet {
	t.Helper()
	return must.Get(filters.NewPatterns(named, own))(t)
}

var all = []filters.Pattern{filters.Card, filters.SSN, filters.Phone, filters.Email}

// found lists the matches in a text as "pattern: text".
func found(s *filters.PatternSet, text string) []string {
	var list []string
	for _, span := range s.Find(text) {
		list = append(list, fmt.Sprintf("%s: %s", span.Pattern, text[span.Start:span.End]))
	}
	return list
}

func TestPatternsMatchOnlyWholeForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"pay by 4111111111111111, please":       {"card: 4111111111111111"},
		"4111 1111 1111 1111 25":                {"card: 4111 1111 1111 1111"},
		"3782-822463-10005":                     {"card: 3782-822463-10005"},
		"4111 1111 1111 1112":                   nil, // the Luhn sum is wrong
		"id 54111111111111111 and a41111111111": nil, // parts of longer ones
		"ssn 123-45-6789.":                      {"ssn: 123-45-6789"},
		"078 05 1120":                           {"ssn: 078 05 1120"},
		"000-12-3456 666-12-3456 912-12-3456":   nil,
		"123-00-4567 123-45-0000":               nil,
		"the random number is 281265017":        nil, // no separators
		"(212) 555-0123":                        {"phone: (212) 555-0123"},
		"+1-212-555-0123 or 212.555.0199":       {"phone: +1-212-555-0123", "phone: 212.555.0199"},
		"+49 30 901820":                         {"phone: +49 30 901820"},
		"3212-555-0123":                         nil,
		"mail jo.doe+x@mail.example.org.":       {"email: jo.doe+x@mail.example.org"},
		"jo@doe":                                nil,
		"a 123-45-6789 b@c.de 212-555-0123":     {"ssn: 123-45-6789", "email: b@c.de", "phone: 212-555-0123"},
		"\xff123-45-6789\xff":                   {"ssn: 123-45-6789"},
	} {
		if got := found(newSet(t, all), text); !slices.Equal(got, want) {
			t.Errorf("in %q found %q, want %q", text, got, want)
		}
	}
}

// Text that the tokenizer splits is still found, in whole words.
func TestFormsAreFoundInWords(t *testing.T) {
	t.Parallel()
	s := newSet(t, all)
	for _, secret := range []string{
		"4111111111111111", "4111 1111 1111 1111", "3782-822463-10005", "123-45-6789", "078 05 1120",
		"(212) 555-0123", "+1-212-555-0123", "212.555.0199", "+49 30 901820", "jo.doe+x@mail.example.org",
	} {
		words, before := text.Tokenize("write to "+secret+", or call"), 2
		want := text.Tokenize(secret)
		spans := s.FindWords(words)
		if len(spans) != 1 || spans[0].Start != before || spans[0].End != before+len(want) {
			t.Errorf("in %q found %v, want the words %q", words, spans, want)
		}
	}
}

func TestCustomExpressionsMatchUnchanged(t *testing.T) {
	t.Parallel()
	s := newSet(t, []filters.Pattern{filters.SSN}, `\bemp-\d{5}\b`, `6789`)
	want := []string{`\bemp-\d{5}\b: emp-12345`, "ssn: 123-45-6789", "6789: 6789"}
	if got := found(s, "xemp-12345 emp-12345 123-45-6789 16789"); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if got := newSet(t, nil, "a").FindWords([]string{"banana", "x"}); len(got) != 1 || got[0].End != 1 {
		t.Errorf("found %v, want the first word once", got)
	}
}

// Of random numbers of sixteen digits, one in ten has the Luhn sum: every number
// has it with exactly one last digit.
func TestOneLastDigitInTenMakesACard(t *testing.T) {
	t.Parallel()
	s, rng := newSet(t, []filters.Pattern{filters.Card}), rand.New(rand.NewPCG(1, 2))
	for range 200 {
		first, cards := fmt.Sprintf("%015d", rng.Int64N(1e15)), 0
		for last := range 10 {
			cards += len(s.Find(fmt.Sprint(first, last)))
		}
		if cards != 1 {
			t.Fatalf("%s with each last digit is a card %d times, want once", first, cards)
		}
	}
}

func TestFindingsNeverOverlapAndStayInside(t *testing.T) {
	t.Parallel()
	s, rng := newSet(t, all, `\d+`, "[a-z]{3}"), rand.New(rand.NewPCG(3, 4))
	const letters = "0123456789 -.@+()ab"
	for range 2000 {
		var content strings.Builder
		for range rng.IntN(60) {
			content.WriteByte(letters[rng.IntN(len(letters))])
		}
		words := text.Tokenize(content.String())
		checkSpans(t, s.Find(content.String()), content.Len())
		checkSpans(t, s.FindWords(words), len(words))
	}
}

func checkSpans(t *testing.T, spans []filters.Span, n int) {
	t.Helper()
	end := 0
	for _, s := range spans {
		if s.Start < end || s.End <= s.Start || s.End > n {
			t.Fatalf("spans %v of a text of %d", spans, n)
		}
		end = s.End
	}
}

func TestNewPatternsRejectsBadPatterns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		named []filters.Pattern
		own   []string
		want  string
	}{
		{[]filters.Pattern{"passport"}, nil, "card"},
		{nil, []string{"("}, "regular expression"},
		{nil, []string{"a*"}, "empty text"},
		{nil, []string{strings.Repeat("a", 1001)}, "at most 1000"},
		{[]filters.Pattern{filters.Card, filters.Card}, nil, "twice"},
	} {
		if _, err := filters.NewPatterns(test.named, test.own); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v %q: got %v, want an error with %q", test.named, test.own, err, test.want)
		}
	}
}
