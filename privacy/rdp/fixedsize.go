package rdp

import "math"

// FixedSize returns a curve of the Gaussian mechanism on a sample of fixed size, drawn without
// replacement, that holds the share q of the population (Wang, Balle and Kasiviswanathan 2019,
// Subsampled Rényi Differential Privacy and Analytical Moments Accountant, Theorem 27). The
// neighbouring relation is to replace one member by another, so the sensitivity of a sum of updates
// that are clipped to norm C is 2C, and sigma is half of its value for adding or removing a member.
//
// The theorem covers whole orders. Between them (a-1) x divergence is interpolated linearly, an
// upper bound because the function is convex; at order 1 it is 0 (section 3.3 there). Sampling
// never harms, since the divergence of a mixture is at most that of its worst part, so the curve is
// also kept at or below the unsampled a/(2 sigma^2). That matters for little noise: implementations
// without this limit exceed it by up to a factor of two at orders below 2.
func FixedSize(q, sigma float64, orders []float64) (Curve, error) {
	if err := checkMechanism(q, sigma); err != nil {
		return Curve{}, err
	}
	u2 := squaredRatio(sigma)
	if trivial, divergence := unsampled(q, u2); trivial {
		return newSampledCurve(q, sigma, orders, divergence)
	}
	bound := newFixedSizeBound(q, u2, orders)
	return newSampledCurve(q, sigma, orders, bound.divergence)
}

// fixedSizeBound holds the values common to all orders of a curve.
type fixedSizeBound struct {
	u2       float64   // (sensitivity/noise)^2
	logTerms []float64 // log of the i-th term of the theorem's sum, without C(a,i)
	moments  map[int]float64
}

// maxMomentOrder is the highest order for which the theorem's first bound on a
// term is computed. Above it only the second, simpler one is used. Both hold, and above this order
// the second is smaller unless sigma is above 8.
const maxMomentOrder = 1024

func newFixedSizeBound(q, u2 float64, orders []float64) *fixedSizeBound {
	top := 2
	for _, order := range orders {
		if !math.IsInf(order, 1) && order > 1 {
			top = max(top, int(math.Ceil(order)))
		}
	}
	b := &fixedSizeBound{u2: u2, logTerms: make([]float64, top+1), moments: map[int]float64{1: 0}}
	logQ := math.Log(q)
	central := logCentralMoments(math.Sqrt(u2), min(top, maxMomentOrder))
	for i := 2; i <= top; i++ {
		b.logTerms[i] = float64(i)*logQ + logTermBound(central, u2, i)
	}
	return b
}

// logTermBound returns the log of the theorem's bound on the i-th term,
//
//	min{4 sqrt(B(2 floor(i/2)) B(2 ceil(i/2))), 2 exp(i(i-1)u2/2)},
//
// where log B(l) is central[l/2]. For i = 2 the first is 4 B(2).
func logTermBound(central []float64, u2 float64, i int) float64 {
	n := float64(i)
	whole := math.Ln2 + n*(n-1)*u2/2
	high := (i + 1) / 2
	if high >= len(central) {
		return whole
	}
	return math.Min(whole, 2*math.Ln2+(central[i/2]+central[high])/2)
}

// divergence returns the bound at one order above 1.
func (b *fixedSizeBound) divergence(order float64) float64 {
	below, above := math.Floor(order), math.Ceil(order)
	moment := b.logMoment(int(below))
	if below < above {
		moment += (order - below) * (b.logMoment(int(above)) - moment)
	}
	return math.Min(moment/(order-1), order*b.u2/2)
}

// logMoment returns (a-1) x divergence at a whole order a, 0 at order 1.
func (b *fixedSizeBound) logMoment(order int) float64 {
	if known, ok := b.moments[order]; ok {
		return known
	}
	terms := newLogSum()
	logChoose := newLogBinomials(order)
	for i := 2; i <= order; i++ {
		terms.add(logChoose.at(i) + b.logTerms[i])
	}
	moment := log1pExp(terms.log())
	b.moments[order] = moment
	return moment
}
