package exposure

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/tasks/audits"
)

// fewest is the smallest sample of canaries that is compared.
const fewest = 5

// Samples compares the exposures of canaries with and without copies in the training data. Without
// memorization both have one distribution, because canaries are drawn alike (Carlini et al. 2019,
// table 3).
type Samples struct {
	// Basis is "exact", "sampled" or "fitted".
	Basis string `json:"basis"`
	// Without are the canaries held back or never inserted.
	Without Sample `json:"without_copies" doc:"of canaries held back or never inserted"`
	// Inserted are all others. Copies has a sample for each number of copies, ascending, if it is large enough.
	Inserted Sample   `json:"inserted" doc:"of all inserted canaries"`
	Copies   []Sample `json:"by_copies" doc:"of canaries with equal numbers of copies"`
	// P is the p-value of all these tests together: the smallest times their number (Bonferroni).
	P *float64 `json:"p,omitempty" doc:"p-value of all tests together (Bonferroni)"`
}

// Sample describes the exposures of a group of canaries.
type Sample struct {
	// Copies is the number of copies of each; 0 if they differ, or without copies.
	Copies   int `json:"copies,omitzero" doc:"copies of each canary; 0 if they differ or there are none"`
	Canaries int `json:"canaries" doc:"number of canaries"`
	// Mean is the mean exposure in bits. A sampled exposure of rank 1 counts as its lower bound: the limit, log2 of the
	// number of references. Censored counts these; with any, Mean is a lower bound too.
	Mean     float64 `json:"mean" doc:"mean exposure in bits, a lower bound if exposures are censored"`
	Censored int     `json:"censored,omitempty" doc:"number of lower bounds among the exposures"`
	// P is the p-value of Mann and Whitney's two-sided test against the canaries without copies.
	P *float64 `json:"p,omitempty" doc:"two-sided p-value by Mann and Whitney against the canaries without copies"`
}

// newSamples compares exposures of the highest basis that all canaries have.
func newSamples(all []measured) *Samples {
	for _, basis := range []Basis{Enumerated, Sampled, Fitted} {
		if byCopies, ok := bitsByCopies(all, basis); ok {
			return compareCopies(basis, byCopies)
		}
	}
	return nil
}

// bitsByCopies groups the exposures of one basis by copies. It returns false if a canary has no such exposure.
func bitsByCopies(all []measured, basis Basis) (map[int][]*Exposure, bool) {
	out := map[int][]*Exposure{}
	for _, m := range all {
		e := m.of(basis)
		if e == nil || math.IsNaN(e.Bits) {
			return nil, false
		}
		out[m.Insertions] = append(out[m.Insertions], e)
	}
	return out, true
}

func compareCopies(basis Basis, byCopies map[int][]*Exposure) *Samples {
	without := byCopies[0]
	var inserted []*Exposure
	ascending := slices.DeleteFunc(slices.Sorted(maps.Keys(byCopies)), func(copies int) bool { return copies == 0 })
	for _, copies := range ascending {
		inserted = append(inserted, byCopies[copies]...)
	}
	if min(len(without), len(inserted)) < fewest {
		return nil
	}
	s := &Samples{
		Basis: basis.String(), Without: newSample(0, without, nil),
		Inserted: newSample(0, inserted, without), Copies: []Sample{},
	}
	for _, copies := range ascending {
		if group := byCopies[copies]; len(group) >= fewest {
			s.Copies = append(s.Copies, newSample(copies, group, without))
		}
	}
	s.P = together(append(slices.Clone(s.Copies), s.Inserted))
	return s
}

// newSample returns the sample of some exposures, with a test against others unless there are none.
func newSample(copies int, exposures, without []*Exposure) Sample {
	bits := bitsOf(exposures)
	s := Sample{Copies: copies, Canaries: len(bits), Mean: stat.Mean(bits, nil), Censored: lists.Count(exposures, (*Exposure).Censored)}
	if len(without) == 0 {
		return s
	}
	if p, err := audits.MannWhitney(bits, bitsOf(without)); err == nil {
		s.P = &p
	}
	return s
}

func bitsOf(exposures []*Exposure) []float64 {
	return lists.Map(exposures, func(e *Exposure) float64 { return e.Bits })
}

// together returns the p-value of several tests; nil without any. A last sample that equals the only other is one
// test.
func together(tested []Sample) *float64 {
	if len(tested) == 2 && tested[0].Canaries == tested[1].Canaries {
		tested = tested[1:]
	}
	least := math.Inf(1)
	for _, s := range tested {
		if s.P != nil {
			least = min(least, *s.P)
		}
	}
	if math.IsInf(least, 1) {
		return nil
	}
	return new(min(1, float64(len(tested))*least))
}

// found reports whether a comparison has a finding, by chance with a probability of at most audits.Significance.
func (s *Samples) found() bool { return s != nil && s.P != nil && *s.P <= audits.Significance }

// maxPrinted limits the numbers of copies in a note.
const maxPrinted = 4

func (s *Samples) String() string {
	controls := fmt.Sprintf("%s of %d controls", s.Without.mean(), s.Without.Canaries)
	if s.Without.Censored > 0 {
		controls += fmt.Sprintf(" (%d at the limit)", s.Without.Censored)
	}
	parts := []string{controls}
	for _, c := range s.Copies[:min(len(s.Copies), maxPrinted)] {
		parts = append(parts, c.String())
	}
	parts = append(parts, s.Inserted.String())
	text := fmt.Sprintf("mean %s %s (Mann and Whitney's test, two-sided, against the controls", s.Basis, strings.Join(parts, ", "))
	if s.P != nil && *s.P != *s.Inserted.P {
		text += fmt.Sprintf("; all tests together, by Bonferroni: %s", audits.PText(*s.P))
	}
	return text + ")"
}

// mean returns the mean as a text, such as "13.29", or ">= 13.29" if it is a lower bound.
func (s Sample) mean() string {
	if s.Censored > 0 {
		return fmt.Sprintf(">= %.2f", s.Mean)
	}
	return fmt.Sprintf("%.2f", s.Mean)
}

func (s Sample) String() string {
	of := fmt.Sprintf("all %d inserted", s.Canaries)
	switch {
	case s.Copies == 1:
		of = fmt.Sprintf("%d with 1 copy", s.Canaries)
	case s.Copies > 1:
		of = fmt.Sprintf("%d with %s", s.Canaries, readable.Count(s.Copies, "copy"))
	}
	limit := ""
	if s.Censored > 0 {
		limit = fmt.Sprintf("%d at the limit, ", s.Censored)
	}
	return fmt.Sprintf("%s of %s (%s%s)", s.mean(), of, limit, audits.PText(*s.P))
}
