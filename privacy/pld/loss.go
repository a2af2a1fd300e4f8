package pld

import "math"

// pair is the two output distributions of one round that are hardest to tell
// apart: normal noise, and the mixture in which a member was sampled with
// probability rate (Mironov, Talwar and Zhang 2019, section 3).
//
// removing takes the mixture for p and the noise for q, its opposite the other
// way round. Losses are functions of the log ratio, which is the loss where
// the member takes part for certain: an output that is g standard deviations
// from a component's mean has the log ratio component.ratio + g/sigma.
type pair struct {
	rate     float64 // within (0, 1]
	sigma    float64 // noise relative to the sensitivity, at least leastSigma
	removing bool
	unit     float64 // that losses are measured in
}

// component is one of the normal distributions that p consists of.
type component struct {
	weight float64 // its share of p
	ratio  float64 // the log ratio at its mean
}

// components returns the one or two that p has.
func (d pair) components() []component {
	atMean := 0.5 / d.sigma / d.sigma
	if !d.removing {
		return []component{{1, -atMean}}
	}
	return []component{{1 - d.rate, -atMean}, {d.rate, atMean}}
}

// loss returns the privacy loss, log(p/q) in units, at a log ratio.
func (d pair) loss(ratio float64) float64 {
	loss := d.lossOfRemoving(ratio) / d.unit
	if d.removing {
		return loss
	}
	return -loss
}

// lossOfRemoving returns log(1 - rate + rate x exp(ratio)).
func (d pair) lossOfRemoving(ratio float64) float64 {
	if d.rate == 1 {
		return ratio
	}
	if ratio > 700 { // where exp overflows
		return ratio + math.Log(d.rate)
	}
	if rise := d.rate * math.Expm1(ratio); math.Abs(rise) < 0.5 {
		return math.Log1p(rise)
	}
	return math.Log((1 - d.rate) + d.rate*math.Exp(ratio))
}

// slope returns how fast the loss changes with the log ratio. It rises with the
// ratio, and passes half its maximum at turn.
func (d pair) slope(ratio float64) float64 {
	if d.rate == 1 {
		return 1 / d.unit
	}
	return 1 / (1 + (1-d.rate)/d.rate*math.Exp(-ratio)) / d.unit
}

// turn is the log ratio where either part of the mixture weighs the same. The
// loss is analytic but for this point plus odd multiples of pi i.
func (d pair) turn() float64 { return math.Log1p(-d.rate) - math.Log(d.rate) }
