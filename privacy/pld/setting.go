package pld

import "math"

// tailError is the share of delta allowed for truncated outputs and for aliased epsilons.
const tailError = 1e-6

// setting is the position and the resolution of the inversion. Every setting
// gives bounds; a good one gives tight bounds fast.
type setting struct {
	epsilon  float64 // near the requested epsilon
	logDelta float64 // roughly the log of delta there

	tilt      float64
	excess    float64 // log of the unit of the terms over delta
	width     float64 // of the smoothing
	window    float64 // period of the sum over frequencies, in losses
	aliasTilt float64 // tilt of Chernoff's inequality, which bounds the aliases
}

func (s setting) found() bool { return s.window > 0 }

// smoothing returns the log of the mean of exp(tilt x loss) of the smoothing Gaussian mechanism.
func (s setting) smoothing(tilt float64) float64 {
	return s.width * s.width * (tilt*tilt + tilt) / 2
}

// frequencies returns the number of frequencies at which the integrand is not negligible.
func (s setting) frequencies() float64 {
	return math.Sqrt(2*(14+s.excess)) / s.width * s.window / (2 * math.Pi)
}

// widest is the largest width of a smoothing: beyond 1 its cost grows exponentially.
const widest = 0.7

// ladder is a geometric series of tilts.
const (
	ladderRatio = 1.25
	ladderDown  = 8
	ladderUp    = 8
)

// minTilt returns the least useful tilt: terms are only a few times as large as without tilt, and
// a lower tilt needs a longer window.
func (d direction) minTilt() float64 {
	without := d.cumulants(0)
	rounded := 1e-12 * without.mean // equal losses have only this variance
	tilt := 0.3 / math.Sqrt(math.Max(without.variance, rounded*rounded))
	for d.cumulants(tilt).value-tilt*without.mean > 1 {
		tilt /= 2
	}
	return tilt
}

// highest returns the highest loss that all rounds can add up to.
func (d direction) highest() float64 {
	total := 0.0
	for _, p := range d.parts {
		if p.change != adding || p.rate == 1 {
			return math.Inf(1)
		}
		total -= p.rounds * math.Log1p(-p.rate) / p.unit
	}
	return total
}

// chernoff returns the least epsilon that the moments prove for delta (Canonne,
// Kamath and Steinke 2020, Proposition 12), roughly.
func (d direction) chernoff(delta float64) float64 {
	proved := func(tilt float64) float64 {
		return (d.cumulants(tilt).value-math.Log(delta*(tilt+1)))/tilt + math.Log(tilt/(tilt+1))
	}
	tilt := d.minTilt()
	best := proved(tilt)
	for _, ratio := range []float64{2, 0.5, 1.2, 1 / 1.2} {
		for next := proved(tilt * ratio); next < best; next = proved(tilt * ratio) {
			tilt, best = tilt*ratio, next
		}
	}
	return math.Max(0, best)
}

// centre returns roughly the tilt that moves the mean to epsilon, or a lower tilt if that already
// proves delta to be far below exp(logDelta). It is at least minTilt.
func (d direction) centre(epsilon, logDelta float64) float64 {
	enough := func(tilt float64) bool {
		c := d.cumulants(tilt)
		return c.mean >= epsilon || c.value-tilt*epsilon < logDelta-50
	}
	least := d.minTilt()
	if d.cumulants(0).mean >= epsilon {
		return d.moderate(least, epsilon)
	}
	low := least
	for enough(low) {
		low /= 4
	}
	high := low
	for !enough(high) && !math.IsInf(high, 1) {
		low, high = high, high*4
	}
	for high > math.Max(low*1.1, least) {
		if middle := math.Sqrt(low * high); enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return math.Max(high, least)
}

// maxExcess exceeds the log of the bound on delta, at most the mean loss and at a tilt that fits
// the spread of losses. If nearly all losses are equal, no tilt fits.
const maxExcess = 30

// moderate returns the tilt, or a lower one at which the bound on delta at epsilon is moderate.
func (d direction) moderate(tilt, epsilon float64) float64 {
	for d.cumulants(tilt).value-tilt*epsilon > maxExcess {
		tilt /= 2
	}
	return tilt
}

// settingFor returns the setting with the fewest frequencies to compute delta near epsilon, given
// roughly log delta, or the zero setting if no setting fits. width is the width of the smoothing; 0
// selects one that costs about roughGap of epsilon.
func (d direction) settingFor(epsilon, logDelta, width float64) setting {
	logMoment := func(tilt float64) float64 { return d.cumulants(tilt).value }
	return d.settingAround(d.centre(epsilon, logDelta), logMoment, setting{epsilon: epsilon, logDelta: logDelta, width: width})
}

// settingAround returns the setting for the requested epsilon, logDelta and width, with a tilt near
// centre. logMoment is the log of the mean of exp(tilt x sum) over the inverted sums.
func (d direction) settingAround(centre float64, logMoment func(tilt float64) float64, asked setting) setting {
	var tilts, logs [ladderDown + 1 + ladderUp]float64
	for i := range tilts {
		tilts[i] = centre * math.Pow(ladderRatio, float64(i-ladderDown))
		logs[i] = logMoment(tilts[i]) - tilts[i]*asked.epsilon
	}
	without := d.cumulants(0)
	scale := max(asked.epsilon, 0.1*math.Sqrt(without.variance), 0.01*math.Abs(without.mean))
	best, least := setting{}, math.Inf(1)
	for i := range ladderDown + ladderUp/2 {
		s := asked
		s.tilt, s.width = tilts[i], math.Min(asked.width, widest)
		if asked.width == 0 {
			s.width = min(widest, 3/tilts[i], math.Sqrt(roughGap*scale/(tilts[i]+1)))
		}
		s.excess = math.Max(0, logs[i]+s.smoothing(s.tilt)-s.logDelta)
		s.setWindow(tilts[i+1:], logs[i+1:])
		if n := s.frequencies(); n < least {
			best, least = s, n
		}
	}
	return best
}

// setWindow sets the window to the shortest at which aliases are a small share
// of delta, given the logs of Chernoff's bounds on delta at some larger tilts.
func (s *setting) setWindow(tilts, logs []float64) {
	small := s.logDelta + math.Log(tailError)
	s.window = math.Inf(1)
	for i, tilt := range tilts {
		if w := (logs[i] + s.smoothing(tilt) - small) / (tilt - s.tilt); w < s.window {
			s.window, s.aliasTilt = w, tilt
		}
	}
	s.window = math.Max(s.window, -small/s.tilt)
}
