package pld

import "math"

// apart bounds the contribution to delta of the sums that are not inverted; the zero
// value is no contribution.
type apart struct {
	small chernoff // of sums of small losses
	high  high     // of sums with a high loss
}

func (a apart) bounds(epsilon float64) (lower, upper float64) {
	lower, upper = a.high.bounds(epsilon)
	return lower, upper + a.small.delta(epsilon)
}

// chernoff is a bound on delta, exp(logMoment - tilt x epsilon), at every epsilon; the zero value
// is a bound of 0.
type chernoff struct{ tilt, logMoment float64 }

func (c chernoff) delta(epsilon float64) float64 {
	if c.tilt == 0 {
		return 0
	}
	return math.Exp(c.logMoment - c.tilt*epsilon)
}

// chernoffAt returns about the least Chernoff bound at epsilon, or one with a log below enough.
func (d direction) chernoffAt(epsilon, enough float64) chernoff {
	c := chernoff{tilt: lowest(func(tilt float64) float64 { return d.cumulants(tilt).value - tilt*epsilon }, 1/epsilon, enough)}
	for _, p := range d.parts {
		log, err := p.momentAt(c.tilt, d.outside)
		c.logMoment += p.rounds * (log + err)
	}
	return c
}

// high is the contribution of sums with a high loss to delta. Nearly all these sums are above
// epsilon, and they contribute the mean of
//
//	1 - exp(epsilon - sum) + (exp(epsilon - sum) - 1)+ .
//
// The first two terms are mass - exp(epsilon) x inverse. The last is at most
// exp(-tilt x (epsilon - sum)) for tilts of -1 and below, whose mean is small at some tilt if no
// other loss is far below 0. Otherwise it is at most exp(epsilon) x pull.
type high struct {
	mass, inverse uncertain
	mild          chernoff // bound on the last term without losses far below 0
	pull          float64
}

// uncertain is a number with a relative error of at most err.
type uncertain struct{ value, err float64 }

func (h high) bounds(epsilon float64) (lower, upper float64) {
	if h == (high{}) {
		return 0, 0
	}
	inverse := math.Exp(epsilon) * h.inverse.value
	err := h.mass.value*h.mass.err + inverse*(h.inverse.err+rounding*(1+epsilon))
	return math.Max(0, h.mass.value-inverse-err), h.mass.value - inverse + err + h.more(epsilon)
}

// more bounds the last term of the mean.
func (h high) more(epsilon float64) float64 {
	return h.mild.delta(epsilon) + math.Exp(epsilon)*h.pull
}

// high computes the contribution of sums with a loss above the limit near epsilon;
// losses below -far are far below 0.
func (h halves) high(epsilon, far, enough float64) high {
	mild := halves{h.below.mild(far), h.above}
	tilt := -lowest(func(tilt float64) float64 { return mild.about(-tilt) + tilt*epsilon }, math.Max(1, 1/epsilon), enough)
	log, err := mild.moment(tilt)
	return high{h.uncertain(0), h.uncertain(-1), chernoff{tilt, log + err}, h.pull(mild.below)}
}

// uncertain returns the mean of exp(tilt x sum) over the sums with a loss above the limit.
func (h halves) uncertain(tilt float64) uncertain {
	log, err := h.moment(tilt)
	if math.IsInf(log, -1) {
		return uncertain{}
	}
	return uncertain{math.Exp(log), math.Expm1(err + rounding*math.Abs(log))}
}

// pull bounds the mean of exp(-sum) over sums with one loss above the limit and one loss below it
// that mild leaves out; the other rounds contribute a factor of at most 1.
func (h halves) pull(mild direction) float64 {
	above, far := 0.0, 0.0
	for i, p := range h.above.parts {
		log, err := p.momentAt(-1, mild.outside)
		above += p.rounds * math.Exp(log+err)
		all, errAll := h.below.parts[i].momentAt(-1, mild.outside)
		kept, errKept := mild.parts[i].momentAt(-1, mild.outside)
		far += p.rounds * (math.Exp(all+errAll) - math.Exp(kept-errKept))
	}
	return above * far
}
