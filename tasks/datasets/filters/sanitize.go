package filters

import (
	"context"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/internal/registry"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// Sanitize removes text with the form of personal data from a population, canaries included, as a
// blacklist does (Carlini et al. 2019, section 9.2), and counts the removals.
//
// Params: SanitizeParams. Inputs: population.Input, population.ShardsInput; population.PartsInput: Encode. Blobs and
// metrics are as for Partition, with new shards. A canary that a pattern matched becomes an
// ordinary example with the remaining words; other canaries stay canaries. In addition:
//
//	sanitized   Sanitized, as JSON
var Sanitize = tasks.Kind{Name: "datasets/sanitize", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runSanitize)}

// SanitizedBlob is a Sanitized, as JSON.
const SanitizedBlob = "sanitized"

// SanitizeParams are the parameters of Sanitize. They have at least one pattern.
type SanitizeParams struct {
	Patterns []Pattern `json:"patterns,omitempty"`
	// Own are regular expressions.
	Own    []string `json:"own,omitempty"`
	Remove Removal  `json:"remove"`
}

// Removal names the unit removed around a match.
type Removal string

// Units of removal.
const (
	RemoveMatch    Removal = "match"
	RemoveSentence Removal = "sentence"
)

// RemovalScheme describes a Removal.
type RemovalScheme struct {
	Removal Removal
	// Summary describes the result in one line.
	Summary string
}

var removals = registry.New("removal", func(s RemovalScheme) Removal { return s.Removal },
	RemovalScheme{RemoveMatch, "the match is masked: at the byte level letters, digits and bytes outside of ASCII become #, at the word level every word becomes <unk>"},
	RemovalScheme{RemoveSentence, "the sentence is left out of the training"},
)

// Removals lists the units of removal.
func Removals() []RemovalScheme { return removals.Entries() }

// Choices lists the units for an experiment file.
func (Removal) Choices() []string { return removals.Words() }

// Sanitized counts the removals of a sanitization.
type Sanitized struct {
	Remove Removal `json:"remove"`
	// Patterns holds the finding count of each pattern, in the order of the parameters.
	Patterns []PatternFindings `json:"patterns"`
	// Sentences counts sentences with a finding that are not canaries.
	Sentences int `json:"sentences"`
	// Canaries lists the canaries with copies in the population, by number. All copies of a canary
	// are caught, or none.
	Canaries []CaughtCanary `json:"canaries"`
}

// PatternFindings counts the matches of a pattern in sentences that are not canaries.
type PatternFindings struct {
	Pattern  Pattern `json:"pattern"`
	Findings int     `json:"findings"`
}

// CaughtCanary is a canary and the result of its sanitization.
type CaughtCanary struct {
	Number int `json:"number"`
	// Copies counts the copies in the population before sanitization.
	Copies int  `json:"copies"`
	Caught bool `json:"caught"`
}

// CaughtCanaries returns the number of caught canaries, and of all.
func (s *Sanitized) CaughtCanaries() (caught, total int) {
	return lists.Count(s.Canaries, func(c CaughtCanary) bool { return c.Caught }), len(s.Canaries)
}

func (s *Sanitized) String() string {
	caught, total := s.CaughtCanaries()
	text := fmt.Sprintf("sanitization caught %d of %d canaries and missed %d; beside them it found", caught, total, total-caught)
	for i, p := range s.Patterns {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %d %s", p.Findings, p.Pattern)
	}
	return fmt.Sprintf("%s in %s", text, readable.Count(s.Sentences, "sentence"))
}

func runSanitize(ctx context.Context, t *tasks.Task, p *SanitizeParams) error {
	s, err := newSanitizer(ctx, t, p)
	if err != nil {
		return err
	}
	if err := population.Rewrite(ctx, t, s.sanitize); err != nil {
		return err
	}
	return t.PutJSON(ctx, SanitizedBlob, s.caught)
}

type sanitizer struct {
	params     *SanitizeParams
	set        *PatternSet
	vocabulary *text.Vocabulary
	bytewise   bool
	caught     Sanitized
	text       []byte   // of an example at the byte level
	words      []string // of an example at the word level
}

func newSanitizer(ctx context.Context, t *tasks.Task, p *SanitizeParams) (*sanitizer, error) {
	set, err := NewPatterns(p.Patterns, p.Own)
	if err == nil && len(set.Patterns()) == 0 {
		err = fmt.Errorf("sanitization without patterns; expected at least one")
	}
	if err == nil {
		_, err = removals.Find(p.Remove)
	}
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	vocabulary, err := text.ReadVocabulary(ctx, t, population.PartsInput)
	if err != nil {
		return nil, err
	}
	s := &sanitizer{params: p, set: set, vocabulary: vocabulary, bytewise: vocabulary.Level() == text.ByteLevel}
	s.caught = Sanitized{Remove: p.Remove, Canaries: []CaughtCanary{}}
	for _, pattern := range set.Patterns() {
		s.caught.Patterns = append(s.caught.Patterns, PatternFindings{Pattern: pattern})
	}
	return s, nil
}

// sanitize returns an example without its matches.
func (s *sanitizer) sanitize(x population.Example) ([]int32, error) {
	spans, err := s.find(x.Words)
	if err != nil {
		return nil, err
	}
	s.count(x, spans)
	switch {
	case len(spans) == 0:
		return x.Words, nil
	case s.params.Remove == RemoveSentence:
		return nil, nil
	}
	masked := slices.Clone(x.Words)
	for _, span := range spans {
		for i := span.Start; i < span.End; i++ {
			if masked[i] != text.Separator {
				masked[i] = s.mask(masked[i])
			}
		}
	}
	return masked, nil
}

// find returns the findings in an example, in tokens.
func (s *sanitizer) find(tokens []int32) ([]Span, error) {
	s.text, s.words = s.text[:0], s.words[:0]
	for _, token := range tokens {
		if int(token) >= s.vocabulary.Size() || s.bytewise && token < text.FirstWord && token != text.Separator {
			return nil, tasks.Permanent(fmt.Errorf("token %d is no word of the vocabulary of %d", token, s.vocabulary.Size()))
		}
		if s.bytewise {
			s.text = append(s.text, byteOf(token))
		} else {
			s.words = append(s.words, s.vocabulary.Words[token])
		}
	}
	if s.bytewise {
		return s.set.Find(string(s.text)), nil
	}
	return s.set.FindWords(s.words), nil
}

// byteOf returns the byte of a token at the byte level. The separator of a pair becomes a newline,
// so that patterns match each text separately.
func byteOf(token int32) byte {
	if token == text.Separator {
		return '\n'
	}
	return byte(token - text.FirstWord)
}

// mask replaces a matched token.
func (s *sanitizer) mask(token int32) int32 {
	if !s.bytewise {
		return text.Unknown
	}
	b := byte(token - text.FirstWord)
	if isAlphanumeric(b) || b >= 0x80 {
		return text.FirstWord + '#'
	}
	return token
}

func (s *sanitizer) count(x population.Example, spans []Span) {
	if x.Canary >= 0 {
		s.countCanary(x.Canary, len(spans) > 0)
		return
	}
	if len(spans) > 0 {
		s.caught.Sentences++
	}
	for _, span := range spans {
		lists.Find(s.caught.Patterns, func(p *PatternFindings) bool { return p.Pattern == span.Pattern }).Findings++
	}
}

func (s *sanitizer) countCanary(number int, caught bool) {
	at, there := slices.BinarySearchFunc(s.caught.Canaries, number, func(c CaughtCanary, n int) int { return c.Number - n })
	if !there {
		s.caught.Canaries = slices.Insert(s.caught.Canaries, at, CaughtCanary{Number: number, Caught: caught})
	}
	s.caught.Canaries[at].Copies++
}
