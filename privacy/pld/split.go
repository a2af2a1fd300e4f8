package pld

import "math"

// split is all rounds, the losses of each cut in three: small, medium and high. Where sampling is rare,
// delta hangs on few large losses. What sums of rounds nearly always are has nothing to do with these,
// but at any tilt that suits them its rounding errors may be larger than delta; and where losses
// far above epsilon are not much rarer, only low tilts suit, which take many frequencies. So
// what is inverted are the sums with a medium loss and no high one. That is a positive mass, of
// which holds what is proved of the inversion of all sums. What the other sums add is bounded apart.
type split struct {
	medium halves // the losses up to medium ones, cut below these
	apart  apart
}

// Limits that losses are cut at are looked for among some, in epsilons.
const (
	mostSmall, smallRatio, leastSmall = 0.8, 0.7, 1e-3
	leastHigh, highRatio, mostHigh    = 2, 1.5, 100
)

// leastShare is the share of the largest loss below which an epsilon takes tilts, and so quadratures, that
// are too fine to pay.
const leastShare = 1e-4

// splitAt cuts losses so that at about epsilon what is uncertain of the sums apart is negligible
// beside delta. It is false if they cannot be cut so.
func (d direction) splitAt(epsilon, logDelta float64) (split, bool) {
	if epsilon < leastShare*d.largestLoss() {
		return split{}, false
	}
	negligible := logDelta + math.Log(tailError)
	high, rest := d.cutHigh(epsilon, negligible)
	for limit := mostSmall * epsilon; limit > leastSmall*epsilon; limit *= smallRatio {
		s := split{rest.cut(limit), apart{high: high}}
		s.apart.small = s.medium.below.chernoffAt(epsilon, negligible)
		if s.apart.small.delta(epsilon) < math.Exp(negligible) {
			return s, true
		}
	}
	return split{}, false
}

// largestLoss is about the largest of a round that is within reach.
func (d direction) largestLoss() float64 {
	largest := 0.0
	for _, p := range d.parts {
		for _, at := range p.rough {
			largest = math.Max(largest, at.loss)
		}
	}
	return largest
}

// cutHigh tells what sums with a high loss add, at the lowest limit of some that will do, and
// returns the rounds with the other losses.
func (d direction) cutHigh(epsilon, negligible float64) (high, direction) {
	for limit := leastHigh * epsilon; limit < mostHigh*epsilon; limit *= highRatio {
		h := d.cut(limit)
		found := h.high(epsilon, (limit-epsilon)/3, negligible)
		if found.more(epsilon) < math.Exp(negligible) {
			return found, h.below
		}
	}
	return high{}, d
}

// settingFor is direction.settingFor for the sums that are inverted.
func (s split) settingFor(d direction, epsilon, logDelta, width float64) setting {
	bound := func(tilt float64) float64 { return s.medium.about(tilt) - tilt*epsilon }
	return d.settingAround(lowest(bound, 1/epsilon, logDelta), s.medium.about, setting{epsilon: epsilon, logDelta: logDelta, width: width})
}

// splitGap is the share of epsilon that smoothing may cost.
const splitGap = 2 * finalGap

// epsilonBySplit bounds epsilon as direction.epsilon does, from a guess that is no more than a few
// times too large. Where losses cannot be split, the bounds are those of any mechanism.
func (d direction) epsilonBySplit(guess, forLower, forUpper float64) Bounds {
	logDelta, width := math.Log(forUpper), 0.0
	b := Bounds{0, math.Inf(1)}
	for range maxGuesses {
		v := d.invertedBySplit(guess, logDelta, width)
		if v == nil {
			return b
		}
		next := v.epsilonAt(forLower, forUpper)
		b = Bounds{math.Max(b.Lower, next.Lower), math.Min(b.Upper, next.Upper)}
		if width > 0 || math.IsInf(next.Upper, 1) {
			return b
		}
		if math.Abs(next.Upper-guess) <= 0.1*next.Upper && next.Lower > 0 {
			width = v.finer(splitGap * next.Upper / (next.Upper - next.Lower))
		}
		guess = next.Upper
	}
	return b
}

// newSplitInversion composes the rounds.
func newSplitInversion(of split, s setting) *inversion {
	if !s.found() {
		return newInversion(of.medium.below, s)
	}
	v := emptyInversion(s)
	v.apart = of.apart
	f := newFrequencies(v.size(), v.step, s)
	r := newRise(len(f.phase))
	outside := of.medium.below.outside
	for i, p := range of.medium.below.parts {
		small := p.pointsAt(s.tilt, f.top(), outside)
		medium := of.medium.above.parts[i].pointsAt(s.tilt, f.top(), outside)
		without, with := newTransform(small, f), newTransform(medium, f)
		f.multiply(without, p.rounds)
		r.multiply(without, with, p.rounds, f.step)
		low, _ := tilted(small, s.aliasTilt)
		high, _ := tilted(medium, s.aliasTilt)
		v.aliasLog += p.rounds * (low + math.Log1p(math.Exp(high-low)))
		v.beyond += 3 * p.rounds * outside // each third leaves as much out
	}
	v.most = r.finish(f)
	v.finish(f)
	return v
}
