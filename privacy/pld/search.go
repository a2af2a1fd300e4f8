package pld

import "math"

// Shares of epsilon that smoothing may cost, during the search for epsilon and at its end.
const (
	roughGap = 1e-2
	finalGap = 1e-5
	// poorGap exceeds the gap between bounds if smoothing is its only cause.
	poorGap = 1e-4
)

// maxGuesses limits the iterations of the search for epsilon.
const maxGuesses = 10

// maxFrequencies limits the work of the last inversion.
const maxFrequencies = 3 << 12

// epsilonFor bounds epsilon at delta; an upper bound of at most enough is not improved.
func epsilonFor(parts []part, delta, enough float64) Bounds {
	d := newDirection(parts, 0.3*delta, 1)
	if d.highest() <= enough {
		return Bounds{}
	}
	guess := math.Min(d.highest(), d.chernoff(delta))
	unit := d.unitFor(guess, math.Log(delta))
	if unit == 1 {
		return newDirection(parts, tailError*delta, 1).epsilon(guess, delta, delta, enough)
	}
	d = newDirection(parts, tailError*delta, unit)
	b := d.epsilon(guess/unit, delta, delta*-math.Expm1(-unitShift), 0)
	return Bounds{b.Lower * unit, (b.Upper + unitShift) * unit}
}

// epsilon bounds, in units of losses, the epsilon at delta forLower from below and the epsilon at
// delta forUpper from above.
func (d direction) epsilon(guess, forLower, forUpper, enough float64) (b Bounds) {
	logDelta := math.Log(forUpper)
	var v *inversion
	for range maxGuesses {
		v = d.inverted(guess, logDelta, 0)
		b = v.epsilonAt(forLower, forUpper)
		if b.Upper <= enough || math.IsInf(b.Upper, 1) {
			return b
		}
		last := guess
		if guess = b.Upper; math.Abs(guess-last) <= 0.1*guess && b.Lower > 0 {
			break
		}
	}
	width := v.finer(finalGap * b.Upper / (b.Upper - b.Lower))
	split, tried := Bounds{0, math.Inf(1)}, poor(b, width*width/v.width/v.width) || v.hidden(b.Upper) > poorGap*b.Upper
	if tried {
		if split = d.epsilonBySplit(b.Upper, forLower, forUpper); !poor(split, 1) {
			return split
		}
	}
	if b = d.epsilonBySums(guess, forLower, forUpper, width); !tried && poor(b, 1) {
		split = d.epsilonBySplit(b.Upper, forLower, forUpper)
	}
	return Bounds{math.Max(b.Lower, split.Lower), math.Min(b.Upper, split.Upper)}
}

// epsilonBySums bounds epsilon by the inversion of all sums, given a good guess.
func (d direction) epsilonBySums(guess, forLower, forUpper, width float64) Bounds {
	logDelta := math.Log(forUpper)
	b := d.inverted(guess, logDelta, width).epsilonAt(forLower, forUpper)
	// At a jump of delta, the smoothing hides the values to its right.
	for step := 1e-4; b.Lower == 0 && step < 1; step *= 10 {
		v := d.inverted(guess*(1-step), logDelta, 0)
		b.Lower = v.epsilonAt(forLower, forUpper).Lower
	}
	return b
}

// poor reports whether bounds would be too far apart at share times their present distance.
func poor(b Bounds, share float64) bool {
	return math.IsInf(b.Upper, 1) || (b.Upper-b.Lower)*share > poorGap*b.Upper
}

// Losses are measured in larger units if they spread over more than widestSpread or if epsilon is
// above largestEpsilon. With losses and epsilon in units of u, above 1, newInversion computes E[(1
// - exp((epsilon-loss)/u))+]. That is at most delta(epsilon) and, since delta is at most P(loss >
// epsilon), at least delta(epsilon + shift x u) x (1 - exp(-shift)).
const (
	widestSpread   = 1000
	largestEpsilon = 1e5
	unitShift      = 5.0
)

// unitFor returns the unit for losses near epsilon.
func (d direction) unitFor(epsilon, logDelta float64) float64 {
	spread := math.Sqrt(d.cumulants(d.centre(epsilon, logDelta)).variance)
	return max(1, spread/widestSpread, epsilon/largestEpsilon)
}

// finer returns the smoothing width that multiplies the cost of smoothing by share, or the least
// width that needs at most maxFrequencies.
func (v *inversion) finer(share float64) float64 {
	return v.width * math.Max(math.Sqrt(share), v.setting.frequencies()/maxFrequencies)
}

// epsilonAt bounds epsilon from below at one delta and from above at another.
func (v *inversion) epsilonAt(forLower, forUpper float64) Bounds {
	lower := func(epsilon float64) float64 { b, _ := v.bounds(epsilon); return math.Log(b / forLower) }
	upper := func(epsilon float64) float64 { _, b := v.bounds(epsilon); return math.Log(b / forUpper) }
	step := 1 / (v.tilt + 1)
	low, _ := crossing(lower, v.setting.epsilon, step)
	_, high := crossing(upper, v.setting.epsilon, step)
	return Bounds{low, high}
}

// crossing returns two close numbers, 0 or above, between which f falls from above 0 to 0 or below.
// If f(0) is not above 0, both are 0; if f is still above 0 far beyond guess, high is +Inf.
func crossing(f func(float64) float64, guess, step float64) (low, high float64) {
	low, high = guess, guess
	atLow := f(guess)
	atHigh := atLow
	for n := 0; atHigh > 0 && n < 60; n++ {
		low, atLow = high, atHigh
		high += step
		step *= 2
		atHigh = f(high)
	}
	if atHigh > 0 {
		return high, math.Inf(1)
	}
	for n := 0; !(atLow > 0); n++ {
		if low == 0 {
			return 0, 0
		}
		high, atHigh = low, atLow
		low = math.Max(0, low-step)
		step *= 2
		atLow = f(low)
	}
	for n := 0; n < 60 && high-low > 1e-8*high; n++ {
		middle := (low + high) / 2
		if share := atLow / (atLow - atHigh); n%3 < 2 && share > 0 && share < 1 {
			middle = low + share*(high-low)
			if n%2 == 0 {
				middle += 1e-9 * high
			} else {
				middle -= 1e-9 * high
			}
		}
		if !(middle > low && middle < high) {
			middle = (low + high) / 2
		}
		if at := f(middle); at > 0 {
			low, atLow = middle, at
		} else {
			high, atHigh = middle, at
		}
	}
	return low, high
}
