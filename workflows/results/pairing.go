package results

import (
	"gonum.org/v1/gonum/stat"

	"coalmine/tasks/audits"
)

// Pairing compares two models by pairs of values, one of each for the same canary.
type Pairing struct {
	// Of Pairs, More have the greater value in the first model, Fewer in the second.
	Pairs int `json:"pairs"`
	More  int `json:"more"`
	Fewer int `json:"fewer"`
	// P is the p-value of the exact sign test, which takes pairs for independent.
	P float64 `json:"p"`
	// Difference of the means, first less second, with the interval over seeds.
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

// NewPairing compares by the differences of pairs, first less second, by seed; nil without a pair.
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

// SignTest is the two-sided p-value of signs that are equally likely: twice the binomial tail, at most 1.
func SignTest(more, fewer int) float64 {
	return min(1, 2*audits.NewShare(max(more, fewer), more+fewer).AtLeast(0.5))
}
