package pld

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// halves holds all rounds, with their losses split at a limit. Let S(s) and B(s) be the parts of
// the mean of exp(s x loss) of a round from losses below and above it. The sums with a loss above
// the limit have the mean
//
//	(S + B)^rounds - S^rounds = S^rounds x ((1 + B/S)^rounds - 1),
//
// computed with a relative error.
type halves struct{ below, above direction }

// cut splits the losses at a limit, 0 or above.
func (d direction) cut(limit float64) halves {
	return halves{
		d.keep(func(p part, s span) span { return span{s.over, p.ratioAt(limit), s.adding} }),
		d.keep(func(p part, s span) span { return span{p.ratioAt(limit), s.upTo, math.Inf(-1)} }),
	}
}

// mild returns the rounds without losses below -limit.
func (d direction) mild(limit float64) direction {
	return d.keep(func(p part, s span) span { return span{s.over, s.upTo, p.ratioAt(limit)} })
}

// keep returns the rounds restricted to the losses that narrow keeps.
func (d direction) keep(narrow func(p part, s span) span) direction {
	kept := direction{outside: d.outside}
	for _, p := range d.parts {
		s := everything
		if p.kept != nil {
			s = *p.kept
		}
		s = narrow(p, s)
		p.kept = &s
		p.rough = p.points(d.outside, resolution{})
		kept.parts = append(kept.parts, p)
	}
	return kept
}

// pointsAt returns the points of a quadrature at a tilt, up to a frequency.
func (p part) pointsAt(tilt, frequency, outside float64) []point {
	rough, _ := tilted(p.rough, tilt)
	return p.points(outside, resolution{tilt, frequency, rough})
}

// momentAt returns the log of the mean of exp(tilt x loss), with an error of at most err.
func (p part) momentAt(tilt, outside float64) (log, err float64) {
	points := p.pointsAt(tilt, 0, outside)
	log, masses := tilted(points, tilt)
	err, _ = transformErrors(points, masses, tilt, log)
	return log, err
}

// about returns roughly the log of the mean of exp(tilt x sum) over the sums with a loss above the
// limit, accurate enough for choices.
func (h halves) about(tilt float64) float64 {
	without, with := 0.0, make([]float64, len(h.below.parts)) // with has logs
	for i, p := range h.below.parts {
		low, _ := tilted(p.rough, tilt)
		high, _ := tilted(h.above.parts[i].rough, tilt)
		without += p.rounds * low
		with[i] = math.Log(p.rounds) + logLog1pExp(high-low)
	}
	return logRise(without, floats.LogSumExp(with))
}

// moment returns the log of the mean in about, with an error of at most err.
func (h halves) moment(tilt float64) (log, err float64) {
	without, relative := 0.0, 0.0               // relative is the error of exp(logWith)
	with := make([]float64, len(h.below.parts)) // logs of the terms of logWith
	for i, p := range h.below.parts {
		low, lowErr := p.momentAt(tilt, h.below.outside)
		high, highErr := h.above.parts[i].momentAt(tilt, h.below.outside)
		without += p.rounds * low
		with[i] = math.Log(p.rounds) + logLog1pExp(high-low)
		err += p.rounds * lowErr
		relative = math.Max(relative, lowErr+highErr)
	}
	logWith := floats.LogSumExp(with)
	return logRise(without, logWith), err + relative*(1+math.Exp(logWith))
}

// logRise returns log(exp(without) x (exp(with) - 1)). It takes the log of with because with may
// underflow if without is large.
func logRise(without, logWith float64) float64 {
	if logWith < logTiny {
		return without + logWith
	}
	with := math.Exp(logWith)
	return without + with + math.Log(-math.Expm1(-with))
}

// logLog1pExp returns log(log(1 + exp(x))).
func logLog1pExp(x float64) float64 {
	switch {
	case x < logTiny:
		return x
	case x > -logTiny:
		return math.Log(x)
	}
	return math.Log(math.Log1p(math.Exp(x)))
}

// logTiny is the log of a number that is negligible relative to 1.
const logTiny = -40

// lowest returns roughly the minimizer of a convex function of the tilt, at start or
// above, or a tilt at which the function is below enough.
func lowest(f func(tilt float64) float64, start, enough float64) float64 {
	tilt, least := start, f(start)
	for least >= enough && tilt < maxTilt*start {
		next := f(tilt * ladderRatio)
		if !(next < least) {
			break
		}
		tilt, least = tilt*ladderRatio, next
	}
	return tilt
}

// maxTilt ends a search: a bound that needs a larger tilt falls too slowly to be useful.
const maxTilt = 1e4
