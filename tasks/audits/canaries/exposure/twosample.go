package exposure

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

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
	Without Sample `json:"without_copies"`
	// Inserted are all others. Copies has a sample for each number of copies, ascending, if it is large enough.
	Inserted Sample   `json:"inserted"`
	Copies   []Sample `json:"by_copies"`
}

type Sample struct {
	// Copies is the number of copies of each; 0 if they differ, or without copies.
	Copies   int `json:"copies,omitzero"`
	Canaries int `json:"canaries"`
	// Mean is the mean exposure in bits. A sampled exposure of rank 1 counts as its lower bound.
	Mean float64 `json:"mean"`
	// P is the p-value of Mann and Whitney's two-sided test against the canaries without copies.
	P *float64 `json:"p,omitempty"`
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
func bitsByCopies(all []measured, basis Basis) (map[int][]float64, bool) {
	out := map[int][]float64{}
	for _, m := range all {
		e := m.of(basis)
		if e == nil || math.IsNaN(e.Bits) {
			return nil, false
		}
		out[m.Insertions] = append(out[m.Insertions], e.Bits)
	}
	return out, true
}

func compareCopies(basis Basis, byCopies map[int][]float64) *Samples {
	without := byCopies[0]
	var inserted []float64
	ascending := slices.DeleteFunc(slices.Sorted(maps.Keys(byCopies)), func(copies int) bool { return copies == 0 })
	for _, copies := range ascending {
		inserted = append(inserted, byCopies[copies]...)
	}
	if min(len(without), len(inserted)) < fewest {
		return nil
	}
	s := &Samples{
		Basis: basis.String(), Without: Sample{Canaries: len(without), Mean: stat.Mean(without, nil)},
		Inserted: newSample(0, inserted, without), Copies: []Sample{},
	}
	for _, copies := range ascending {
		if bits := byCopies[copies]; len(bits) >= fewest {
			s.Copies = append(s.Copies, newSample(copies, bits, without))
		}
	}
	return s
}

func newSample(copies int, bits, without []float64) Sample {
	s := Sample{Copies: copies, Canaries: len(bits), Mean: stat.Mean(bits, nil)}
	if p, err := audits.MannWhitney(bits, without); err == nil {
		s.P = &p
	}
	return s
}

// maxPrinted limits the numbers of copies in a note.
const maxPrinted = 4

func (s *Samples) String() string {
	parts := []string{fmt.Sprintf("%.2f of %d controls", s.Without.Mean, s.Without.Canaries)}
	for _, c := range s.Copies[:min(len(s.Copies), maxPrinted)] {
		parts = append(parts, c.String())
	}
	parts = append(parts, s.Inserted.String())
	return fmt.Sprintf("mean %s %s (Mann and Whitney's test, two-sided, against the controls)", s.Basis, strings.Join(parts, ", "))
}

func (s Sample) String() string {
	of := fmt.Sprintf("all %d inserted", s.Canaries)
	switch {
	case s.Copies == 1:
		of = fmt.Sprintf("%d with 1 copy", s.Canaries)
	case s.Copies > 1:
		of = fmt.Sprintf("%d with %s", s.Canaries, readable.Count(s.Copies, "copy"))
	}
	return fmt.Sprintf("%.2f of %s (%s)", s.Mean, of, audits.PText(*s.P))
}
