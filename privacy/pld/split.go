package pld

import "math"

// split holds all rounds, with losses classified as small, medium or high. If sampling is rare,
// delta depends on few large losses. Typical sums of rounds have no large loss, but their rounding
// errors may exceed delta at any tilt that suits them; and if losses far above epsilon are not much
// rarer, only low tilts suit, which need many frequencies. So only the sums with a medium loss and
// no high loss are inverted. They have a positive mass, so the proof for the inversion of all sums
// applies. The contribution of the other sums is bounded separately.
type split struct {
	medium halves // small and medium losses
	apart  apart
}

// Candidates for the limits that classify losses, in epsilons.
const (
	maxSmall, smallRatio, minSmall = 0.8, 0.7, 1e-3
	minHigh, highRatio, maxHigh    = 2, 1.5, 100
)

// minShare is the ratio of epsilon to the largest loss below which tilts, and so quadratures, are
// too fine to be affordable.
const minShare = 1e-4

// splitAt classifies losses so that near epsilon the error of the sums that are not inverted is
// negligible relative to delta. It returns false if there is no such classification.
func (d direction) splitAt(epsilon, logDelta float64) (split, bool) {
	if epsilon < minShare*d.largestLoss() {
		return split{}, false
	}
	negligible := logDelta + math.Log(tailError)
	high, rest := d.cutHigh(epsilon, negligible)
	for limit := maxSmall * epsilon; limit > minSmall*epsilon; limit *= smallRatio {
		s := split{rest.cut(limit), apart{high: high}}
		s.apart.small = s.medium.below.chernoffAt(epsilon, negligible)
		if s.apart.small.delta(epsilon) < math.Exp(negligible) {
			return s, true
		}
	}
	return split{}, false
}

// largestLoss returns roughly the largest loss of a round within reach.
func (d direction) largestLoss() float64 {
	largest := 0.0
	for _, p := range d.parts {
		for _, at := range p.rough {
			largest = math.Max(largest, at.loss)
		}
	}
	return largest
}

// cutHigh returns the contribution of sums with a high loss, at the lowest suitable limit, and the
// rounds without high losses.
func (d direction) cutHigh(epsilon, negligible float64) (high, direction) {
	for limit := minHigh * epsilon; limit < maxHigh*epsilon; limit *= highRatio {
		h := d.cut(limit)
		found := h.high(epsilon, (limit-epsilon)/3, negligible)
		if found.more(epsilon) < math.Exp(negligible) {
			return found, h.below
		}
	}
	return high{}, d
}

// settingFor is direction.settingFor for the inverted sums.
func (s split) settingFor(d direction, epsilon, logDelta, width float64) setting {
	bound := func(tilt float64) float64 { return s.medium.about(tilt) - tilt*epsilon }
	return d.settingAround(lowest(bound, 1/epsilon, logDelta), s.medium.about, setting{epsilon: epsilon, logDelta: logDelta, width: width})
}

// splitGap is the share of epsilon that smoothing may cost.
const splitGap = 2 * finalGap

// epsilonBySplit bounds epsilon as direction.epsilon does, from a guess that is at most a few
// times too large. If losses cannot be split, it returns the bounds of any mechanism.
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
		v.beyond += 3 * p.rounds * outside // each class leaves out this much
	}
	v.most = r.finish(f)
	v.finish(f)
	return v
}
