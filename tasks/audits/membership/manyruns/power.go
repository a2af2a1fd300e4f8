package manyruns

import (
	"fmt"
	"math"
	"math/rand/v2"

	"coalmine/privacy/empirical"
	"coalmine/tasks/audits"
)

// trials is the number of simulated audits: the standard error of a power is at most 5%.
const trials = 100

// power returns the power of the bounds if each training's score is standard normal, and heads adds the shift of
// the Gaussian mechanism with the true epsilon.
func power(s *audits.Setting, _ audits.Outcome) []audits.Statement {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return nil
	}
	o, confidence := f.ManyRuns, f.ManyRuns.Confidence.Float64()
	bound := o.statement("the lower bound is above 0", func(r empirical.Rates) float64 { return r.Epsilon(o.Delta, confidence) })
	bound.Limit = "many_runs_epsilon_lower"
	bound.Nothing = func(v audits.Outcome) bool { return v.(*Outcome).EpsilonAtLeast() == 0 }
	byCurve := o.statement("the lower bound by the trade-off curve is above 0", func(r empirical.Rates) float64 { return r.Shift(confidence) })
	byCurve.Name = "trade_off"
	byCurve.Nothing = func(v audits.Outcome) bool { t := v.(*Outcome).TradeOff; return t == nil || t.EpsilonLower == 0 }
	return []audits.Statement{bound, byCurve}
}

// statement is about a number of a rule, which is also chosen by this number.
func (o *Block) statement(finds string, value func(empirical.Rates) float64) audits.Statement {
	x := audits.Statement{
		Finds: finds,
		Leak:  audits.Leak{Name: "epsilon", Means: "the training costs epsilon", Default: 8, Most: 100},
		Sizes: []audits.Size{audits.FieldSize(path+".runs", "training", o.Runs)},
		Power: audits.Simulated(trials, 0, func(sizes []int, leak float64) func(*rand.Rand) float64 {
			shift, chosen := empirical.GaussianShift(leak, o.Delta), thinned(sizes[0]/2, value)
			return func(rng *rand.Rand) float64 {
				rule := empirical.ChooseRule(drawn((sizes[0]+1)/2, shift, rng), chosen)
				return value(rule.Rates(drawn(sizes[0]/2, shift, rng)))
			}
		}, func(_ []int, limit float64) func(float64) bool {
			return func(found float64) bool { return found > limit }
		}),
	}
	half := o.Runs / 2
	if perfect := (empirical.Rates{Of: half / 2, Others: half - half/2}).Perfect(); value(perfect) == 0 {
		x.None = fmt.Sprintf("were all coins of the %d trainings that prove told, %d with the canary and %d without, the bound would be 0", half, perfect.Of, perfect.Others)
	}
	return x
}

func drawn(n int, shift float64, rng *rand.Rand) []empirical.Run {
	runs := make([]empirical.Run, n)
	for i := range runs {
		runs[i].Score = rng.NormFloat64()
		if runs[i].Included = rng.IntN(2) == 1; runs[i].Included {
			runs[i].Score += shift
		}
	}
	return runs
}

// maxRules bounds the thresholds compared in each direction of a simulation. With more trainings, only every
// second, third, ... threshold is compared.
const maxRules = 100

// thinned returns value for about maxRules of the rules of n trainings, and -Inf for the others. Equal rates
// are computed once.
func thinned(n int, value func(empirical.Rates) float64) func(empirical.Rates) float64 {
	known, step := map[empirical.Rates]float64{}, max(1, n/maxRules)
	return func(r empirical.Rates) float64 {
		if (r.Right+r.Wrong)%step != 0 {
			return math.Inf(-1)
		}
		v, done := known[r]
		if !done {
			v = value(r)
			known[r] = v
		}
		return v
	}
}
