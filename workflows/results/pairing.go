package results

import (
	"gonum.org/v1/gonum/stat"

	"coalmine/tasks/audits"
)

// Pairing compares two models by pairs of values for the same canary.
type Pairing struct {
	// Pairs is the number of pairs; in More of them the value of the first model is greater, in
	// Fewer that of the second.
	Pairs int `json:"pairs"`
	More  int `json:"more"`
	Fewer int `json:"fewer"`
	// P is the p-value of the exact sign test, which assumes independent pairs.
	P float64 `json:"p"`
	// Difference is the difference of the means, first minus second, with its interval over seeds.
	Difference *audits.Estimate `json:"difference"`
}

// add counts the differences of one seed.
func (p *Pairing) add(differences []float64) {
	p.Pairs += len(differences)
	for _, d := range differences {
		switch {
		case d > 0:
			p.More++
		case d < 0:
			p.Fewer++
		}
	}
}

// NewPairing compares models by the differences of pairs, first minus second, for each seed; nil
// without a pair.
func NewPairing(seeds [][]float64) *Pairing {
	var p Pairing
	var means []float64
	for _, differences := range seeds {
		if len(differences) > 0 {
			p.add(differences)
			means = append(means, stat.Mean(differences, nil))
		}
	}
	if p.Pairs == 0 {
		return nil
	}
	p.P, p.Difference = SignTest(p.More, p.Fewer), audits.NewEstimate(means)
	return &p
}

// SignTest returns the two-sided p-value for equally likely signs: twice the binomial tail, at most 1.
func SignTest(more, fewer int) float64 {
	return min(1, 2*audits.NewShare(max(more, fewer), more+fewer).AtLeast(0.5))
}
