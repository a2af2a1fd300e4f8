package oneshot

import (
	"math"
	"math/rand/v2"

	"coalmine/privacy/empirical"
	"coalmine/tasks/audits"
)

// certain is the number of standard errors that a find is above 0: one-sided, 95%.
const certain = 1.645

// trials is the number of simulated audits: the standard error of a power is at most 5%. An estimate takes a
// millisecond.
const trials = 100

// power returns the power of the estimate if the statistic of each canary client is normal, and shifted from
// that of an unseen direction as by the Gaussian mechanism with the true epsilon.
func power(s *audits.Setting, v audits.Outcome) []audits.Statement {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return nil
	}
	o := f.OneShot
	return []audits.Statement{{
		Finds:   "an estimate is certainly above 0, by 1.645 standard errors",
		Leak:    audits.Leak{Name: "epsilon", Means: "the training costs epsilon", Default: 8, Most: 100},
		Sizes:   []audits.Size{audits.FieldSize(path+".canaries", "canary client", o.Canaries)},
		Nothing: func(v audits.Outcome) bool { return !v.(*Outcome).found() },
		Power: audits.Simulated(trials, 0, func(sizes []int, leak float64) func(*rand.Rand) bool {
			shift := empirical.GaussianShift(leak, o.Delta)
			return func(rng *rand.Rand) bool { return found(o.simulate(sizes[0], shift, rng)) }
		}, func([]int, float64) func(bool) bool { return func(found bool) bool { return found } }),
	}}
}

// simulate estimates by n canaries, from all rounds if the audit has no estimate from the final model.
func (o *Block) simulate(n int, shift float64, rng *rand.Rand) *empirical.Estimate {
	draw := func(n int, mean, deviation float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = deviation * (mean + rng.NormFloat64())
		}
		return x
	}
	var e empirical.Estimate
	var err error
	if o.Statistic == AllIterates {
		e, err = empirical.AllIterates(draw(n, shift, 1), draw(o.Unseen, 0, 1), o.Delta)
	} else {
		d := empirical.MinPerCanary * max(n, empirical.MinDimension) // the estimate does not depend on it
		e, err = empirical.FinalIterate(draw(n, shift, 1/math.Sqrt(float64(d))), d, o.Delta)
	}
	if err != nil { // too few values to fit
		return nil
	}
	return &e
}

// found reports whether an estimate is certainly above 0.
func found(e *empirical.Estimate) bool {
	return e != nil && e.Epsilon-certain*e.StandardError > 0
}

func (v *Outcome) found() bool { return found(v.Final) || found(v.AllIterates) }
