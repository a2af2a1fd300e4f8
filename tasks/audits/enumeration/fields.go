package enumeration

import (
	"fmt"
	"math"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/exposure"
)

// Fields of the audit block.
type Fields struct {
	// Enumeration finds each canary's exact rank among all sequences of its space.
	// Absent: not done.
	Enumeration *Block `json:"enumeration,omitempty"`
}

// Block of the audit's fields.
type Block struct {
	// Prefix is the number of the canary's words that are given; with
	// canaries.format by default what stands before its first #.
	Prefix int `json:"prefix" default:"1" range:"[1,999]" unit:"words (byte level: bytes)" source:"Carlini et al. 2019, section 4.2"`
	// Limit is the most sequences that may follow the prefix: a larger space is refused.
	// A core enumerates about half a million a second with the byte model of Carlini et
	// al. (two layers of 200 units).
	Limit int `json:"limit" default:"10000000" range:"[1,1000000000000]" unit:"sequences"`
}

const path = "audit.enumeration"

// Asked implements audits.Fields.
func (f *Fields) Asked() bool { return f.Enumeration != nil }

// Complete implements audits.Completer.
func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	if s.Canaries != nil && !given(path+".prefix") {
		f.Enumeration.Prefix = s.Canaries.DefaultPrefix()
	}
}

// Check implements audits.Fields.
func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	b := f.Enumeration
	audits.CheckPrefix(s, path, b.Prefix, fail)
	if s.Canaries == nil || b.Prefix >= s.Canaries.Words {
		return
	}
	if room := s.Canaries.Sequences(s.Ordinary, b.Prefix); room > float64(b.Limit) {
		fail([]string{path + ".limit", path + ".prefix", "canaries.words", "canaries.format", "canaries.alphabet", "data.vocabulary.size"},
			"is %d, and %.0f sequences can follow the prefix; raise it to enumerate them, give a longer prefix, or estimate the exposure by audit.random_sampling or audit.skew_normal",
			b.Limit, room)
	}
}

// sequences may follow the prefix.
func (b *Block) sequences(s *audits.Setting) int {
	return int(s.Canaries.Sequences(s.Ordinary, b.Prefix))
}

// MostExposure implements exposure.Measurer.
func (f *Fields) MostExposure(s *audits.Setting) (bits float64, because, how string) {
	if s.Canaries == nil || f.Enumeration.Prefix >= s.Canaries.Words {
		return math.Inf(1), path, "a space that is not known" // Check says what is wrong
	}
	n := f.Enumeration.sequences(s)
	return math.Log2(float64(n)), path + ".prefix", fmt.Sprintf("log2(%d sequences)", n)
}

// Basis implements exposure.Measurer.
func (f *Fields) Basis() exposure.Basis { return exposure.Enumerated }

// SequencesATask is how many sequences a task enumerates: some seconds of work. It shows
// in keys, not in results.
const SequencesATask = 2_500_000

// Compile implements audits.Fields.
func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	s, model := b.Setting(), b.Model(round)
	inputs := []tasks.Input{{Name: audits.PlacementsInput, Key: b.Placements()}}
	sequences := f.Enumeration.sequences(s)
	for i, span := range audits.Split(sequences, SequencesATask) {
		part := b.Node(Kind, fmt.Sprintf("enumeration from sequence %d after %d", span.First, round), Params{
			Space: s.Canaries.Space, Prefix: f.Enumeration.Prefix, First: span.First, Count: span.Count,
		}, tasks.Input{Name: audits.ModelInput, Key: model}, tasks.Input{Name: audits.CanariesInput, Key: b.Canaries()})
		inputs = append(inputs, tasks.Input{Name: tasks.PartInput(i), Key: part})
	}
	return b.Node(Summary, fmt.Sprintf("enumeration after %d", round),
		SummaryParams{Parts: len(inputs) - 1, Sequences: int64(sequences)}, inputs...)
}

// States implements audits.Fields. It is what there is without pruning.
func (f *Fields) States(s *audits.Setting) float64 {
	space, prefix := s.Canaries.Space, f.Enumeration.Prefix
	sequences := space.Sequences(s.Ordinary, prefix)
	nodes := 0.0
	for given := prefix + 1; given < space.Words; given++ {
		nodes += sequences / space.Sequences(s.Ordinary, given)
	}
	prefixes := min(space.Sequences(s.Ordinary, 0)/sequences, float64(s.Canaries.Drawn))
	return prefixes * max(1, nodes)
}

// Limits of audit.fail_if.
type Limits struct {
	// EnumerationMemorized limits the canaries that are the most likely of all sequences.
	EnumerationMemorized *int `json:"enumeration_memorized,omitempty" range:"[0,1000000000]" unit:"canaries"`
}

// Breaches implements audits.Limits.
func (l *Limits) Breaches(c *audits.Cell) []string {
	v, ok := audits.VerdictOf[*Verdict](c)
	if !ok {
		return nil
	}
	return audits.Above("enumeration_memorized", v.Memorized, l.EnumerationMemorized)
}
