package pld

import (
	"errors"
	"fmt"
	"math"

	"coalmine/privacy/rdp"
)

// Step is a Gaussian mechanism on a Poisson sample, run for some rounds.
type Step struct {
	Rate   float64 // chance of a member to take part, within [0, 1]
	Sigma  float64 // noise relative to the sensitivity, 0 or above
	Rounds int     // 0 or more
}

// Bounds hold the truth between them.
type Bounds struct {
	Lower, Upper float64
}

// Epsilon bounds the smallest epsilon of all steps together at delta, within
// (0, 1), for adding or removing one member. Both bounds are 0 or above; they
// are +Inf where a step has no noise.
func Epsilon(steps []Step, delta float64) (Bounds, error) {
	if !(delta > 0 && delta < 1) {
		return Bounds{}, fmt.Errorf("delta %v: expected a number above 0 and below 1", delta)
	}
	active, err := activeSteps(steps)
	if err != nil {
		return Bounds{}, err
	}
	if sigma, plain := plainSigma(active); plain {
		e := GaussianEpsilon(sigma, delta)
		return Bounds{e, e}, nil
	}
	curve, err := renyiCurve(active)
	if err != nil {
		return Bounds{}, err
	}
	return epsilonBounds(active, curve, delta)
}

// epsilonBounds asks twice: roughly first, to learn how finely and with which
// tilt to ask.
func epsilonBounds(steps []Step, curve rdp.Curve, delta float64) (Bounds, error) {
	answer := func(s sum, side bound) (float64, bool) { return s.epsilonAt(delta, side) }
	renyi, _ := curve.Epsilon(delta, rdp.Improved)
	q := query{steps: steps, tilt: tiltFor(curve, renyi), scale: renyi, delta: delta, tolerance: roughError}
	rough, err := q.oneSided(true, above, answer)
	if err != nil {
		return Bounds{}, err
	}
	epsilon := math.Min(renyi, rough)
	if epsilon == 0 {
		return Bounds{}, nil
	}
	q.tilt, q.scale, q.tolerance = tiltFor(curve, epsilon), epsilon, stepError
	b, err := q.bounds(answer)
	b.Upper = math.Min(b.Upper, renyi)
	return b, err
}

// Delta bounds the delta of all steps together at epsilon, 0 or above, for
// adding or removing one member.
func Delta(steps []Step, epsilon float64) (Bounds, error) {
	if !(epsilon >= 0) || math.IsInf(epsilon, 1) {
		return Bounds{}, fmt.Errorf("epsilon %v: expected a number of 0 or above", epsilon)
	}
	active, err := activeSteps(steps)
	if err != nil {
		return Bounds{}, err
	}
	if sigma, plain := plainSigma(active); plain {
		d := GaussianDelta(sigma, epsilon)
		return Bounds{d, d}, nil
	}
	curve, err := renyiCurve(active)
	if err != nil {
		return Bounds{}, err
	}
	tilt := tiltFor(curve, epsilon)
	q := query{
		steps: active, tilt: tilt, tolerance: stepError,
		scale: math.Max(epsilon, 0.1), delta: math.Exp(chernoff(curve, tilt, epsilon)),
	}
	return q.bounds(func(s sum, side bound) (float64, bool) { return s.deltaAt(epsilon, side) })
}

// activeSteps returns the steps that cost anything, after checking all.
func activeSteps(steps []Step) ([]Step, error) {
	var active []Step
	var errs []error
	for _, s := range steps {
		switch {
		case !(s.Rate >= 0 && s.Rate <= 1):
			errs = append(errs, fmt.Errorf("sampling rate %v: expected a number from 0 to 1", s.Rate))
		case !(s.Sigma >= 0):
			errs = append(errs, fmt.Errorf("noise %v, relative to the sensitivity: expected 0 or above", s.Sigma))
		case s.Rounds < 0:
			errs = append(errs, fmt.Errorf("rounds %d: expected 0 or more", s.Rounds))
		case s.Rate > 0 && s.Rounds > 0 && !math.IsInf(s.Sigma, 1):
			active = append(active, s)
		}
	}
	return active, errors.Join(errs...)
}

// plainSigma returns the noise of the one Gaussian mechanism that equals all
// steps, where there is one: when nothing is sampled, nothing runs, or a step
// has no noise.
func plainSigma(steps []Step) (float64, bool) {
	precision, sampled := 0.0, false
	for _, s := range steps {
		if s.Sigma < leastSigma {
			return 0, true
		}
		precision += float64(s.Rounds) / s.Sigma / s.Sigma
		sampled = sampled || s.Rate < 1
	}
	return 1 / math.Sqrt(precision), !sampled
}

// leastSigma is the noise below which a sampled mechanism counts as having
// none: a loss is then beyond 1e9.
const leastSigma = 1e-5

// tiltOrders are the Rényi orders among which the tilt is chosen. Any tilt is
// right; one near the best keeps rounding errors small.
var tiltOrders = []float64{1.00001, 1.0001, 1.001, 1.01, 1.03, 1.06, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 256, 512, 1024}

func renyiCurve(steps []Step) (total rdp.Curve, err error) {
	for i, s := range steps {
		curve, err := rdp.Poisson(s.Rate, s.Sigma, tiltOrders)
		if err != nil {
			return rdp.Curve{}, err
		}
		curve = curve.Times(s.Rounds)
		if i == 0 {
			total = curve
		} else if total, err = total.Plus(curve); err != nil {
			return rdp.Curve{}, err
		}
	}
	return total, nil
}

// tiltFor returns the least tilt whose Chernoff bound on the tail at epsilon
// is near the best one. Larger tilts gain nothing and may widen the window.
func tiltFor(curve rdp.Curve, epsilon float64) float64 {
	best := math.Inf(1)
	for _, order := range curve.Orders() {
		best = math.Min(best, chernoff(curve, order-1, epsilon))
	}
	for _, order := range curve.Orders() {
		if chernoff(curve, order-1, epsilon) <= best+5 {
			return order - 1
		}
	}
	return 0
}

// chernoff returns the log of the bound on P(loss > epsilon) at a tilt that is
// an order of the curve less one, at most 0.
func chernoff(curve rdp.Curve, tilt, epsilon float64) float64 {
	for i, order := range curve.Orders() {
		if order-1 == tilt {
			return math.Min(0, tilt*(curve.Values()[i]-epsilon))
		}
	}
	return 0
}
