package pld

import (
	"math"
	"slices"
)

// part is one kind of round, under removal, addition or replacement of a member.
type part struct {
	pair
	rounds float64
	rough  []point // accurate enough for choices, not for proofs
}

// direction is all rounds, under the same change.
type direction struct {
	parts   []part
	outside float64 // probability of the outputs left out of a round
}

func partsOf(steps []Step, seen change) (parts []part) {
	for _, s := range steps {
		parts = append(parts, part{pair: pair{rate: s.Rate, sigma: s.Sigma, change: seen}, rounds: float64(s.Rounds)})
	}
	return parts
}

func newDirection(parts []part, outside, unit float64) direction {
	d := direction{parts: slices.Clone(parts)}
	rounds := 0.0
	for _, p := range parts {
		rounds += p.rounds
	}
	d.outside = math.Max(outside, 1e-290) / rounds
	for i := range d.parts {
		p := &d.parts[i]
		p.unit = unit
		p.rough = p.points(d.outside, resolution{})
	}
	return d
}

// cumulants holds the cumulants of the sum of all losses under a tilt: the log of the mean of
// exp(tilt x loss), and its first two derivatives by the tilt.
type cumulants struct {
	value, mean, variance float64
}

func (d direction) cumulants(tilt float64) (sum cumulants) {
	for _, p := range d.parts {
		value, masses := tilted(p.rough, tilt)
		mean, square := 0.0, 0.0
		for i, m := range masses {
			mean += m * p.rough[i].loss
		}
		for i, m := range masses {
			d := p.rough[i].loss - mean
			square += m * d * d
		}
		sum.value += p.rounds * value
		sum.mean += p.rounds * mean
		sum.variance += p.rounds * square
	}
	return sum
}
