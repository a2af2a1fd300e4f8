// These files bound epsilon from below by many trainings. A fair coin puts the canary into each
// training or leaves it out, and a rule that was chosen on other trainings recognizes the trainings
// with the canary by their scores. Clopper and Pearson's intervals, which hold for any number of
// trainings, bound the shares of trainings with and without the canary that the rule classifies as
// with.

package empirical

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"

	"coalmine/privacy"
)

// Run is one training of many.
type Run struct {
	// Score is higher if the training seems to know the canary.
	Score float64
	// Included reports whether the canary was in the training data.
	Included bool
}

// Rule recognizes trainings with the canary by a score above Threshold or, with Below, trainings without it
// by a score of at most Threshold.
type Rule struct {
	Threshold float64 `json:"threshold" doc:"score above which the rule recognizes a training with the canary; with below, at which it recognizes one without"`
	Below     bool    `json:"below,omitempty"`
}

// Rates are counts of a rule: it recognizes Right of Of trainings of its kind, and mistakes Wrong
// of Others for such trainings.
type Rates struct {
	Right  int `json:"right" doc:"proving trainings that the rule recognizes rightly, of many_runs_of"`
	Of     int `json:"of" doc:"proving trainings on the side of the coin that the rule recognizes"`
	Wrong  int `json:"wrong" doc:"proving trainings that the rule recognizes wrongly, of many_runs_others"`
	Others int `json:"others" doc:"proving trainings on the other side of the coin"`
}

// Rates applies the rule.
func (r Rule) Rates(runs []Run) (rates Rates) {
	for _, run := range runs {
		recognized := 0
		if r.Below != (run.Score > r.Threshold) {
			recognized = 1
		}
		if r.Below != run.Included {
			rates.Of, rates.Right = rates.Of+1, rates.Right+recognized
		} else {
			rates.Others, rates.Wrong = rates.Others+1, rates.Wrong+recognized
		}
	}
	return rates
}

// ChooseRule returns the rule with the largest value. Candidate thresholds are midpoints of
// neighbouring scores and the highest score. Ties go to the lowest threshold, then to above before
// below. Compute the bound from other runs.
func ChooseRule(runs []Run, value func(Rates) float64) Rule {
	runs = slices.SortedFunc(slices.Values(runs), func(a, b Run) int { return cmp.Compare(a.Score, b.Score) })
	var all, upTo [2]int // trainings without the canary and with it
	for _, run := range runs {
		all[side(run)]++
	}
	var best Rule
	most := math.Inf(-1)
	for i, run := range runs {
		upTo[side(run)]++
		threshold := run.Score
		if i+1 < len(runs) {
			next := runs[i+1].Score
			if next == run.Score {
				continue
			}
			threshold += (next - threshold) / 2
		}
		above := Rates{Right: all[1] - upTo[1], Of: all[1], Wrong: all[0] - upTo[0], Others: all[0]}
		below := Rates{Right: upTo[0], Of: all[0], Wrong: upTo[1], Others: all[1]}
		for j, rates := range []Rates{above, below} {
			if v := value(rates); v > most {
				best, most = Rule{threshold, j == 1}, v
			}
		}
	}
	return best
}

// side is 1 with the canary, 0 without.
func side(run Run) int {
	if run.Included {
		return 1
	}
	return 0
}

// Perfect returns the rates of a rule without mistakes.
func (r Rates) Perfect() Rates { return Rates{Right: r.Of, Of: r.Of, Others: r.Others} }

// ends returns a lower bound on the probability of a right recognition and an upper bound on that
// of a wrong one. Both hold together with probability at least 1 - level (Clopper and Pearson
// 1934).
func (r Rates) ends(level float64) (right, wrong float64) {
	right, wrong = 0, 1
	if r.Right > 0 {
		right = mathext.InvRegIncBeta(float64(r.Right), float64(r.Of-r.Right+1), level/2)
	}
	if r.Wrong < r.Others {
		wrong = mathext.InvRegIncBeta(float64(r.Wrong+1), float64(r.Others-r.Wrong), 1-level/2)
	}
	return right, wrong
}

// Epsilon returns the largest epsilon that the rates refute at delta with a confidence, both within (0, 1), or
// 0: a mechanism with (epsilon, delta)-differential privacy has right <= exp(epsilon) wrong + delta.
func (r Rates) Epsilon(delta, confidence float64) float64 {
	right, wrong := r.ends(1 - confidence)
	if right <= delta {
		return 0
	}
	return max(0, math.Log((right-delta)/wrong))
}

// Shift returns the largest mu at which the rates refute [GaussianCurve] with a confidence within (0, 1), or 0.
func (r Rates) Shift(confidence float64) float64 {
	right, wrong := r.ends(1 - confidence)
	if right == 0 || wrong == 1 {
		return 0
	}
	return max(0, normalQuantile(right)-normalQuantile(wrong))
}

// Refutes reports whether the rates refute a curve at a significance level.
func (r Rates) Refutes(curve Curve, level float64) bool {
	right, wrong := r.ends(level)
	return wrong < curve(right)
}

// MinNoise is the function [MinNoise] for rates instead of guesses.
func (r Rates) MinNoise(recipe privacy.Recipe, confidence float64) (NoiseBound, error) {
	if r.Of < 1 || r.Others < 1 || r.Right > r.Of || r.Wrong > r.Others || min(r.Right, r.Wrong) < 0 {
		return NoiseBound{}, fmt.Errorf("many-run audit that recognizes %d of %d trainings and takes %d of %d for such: expected counts up to numbers of trainings, at least 1", r.Right, r.Of, r.Wrong, r.Others)
	}
	one := []Outcome{{Units: 1, Guesses: 1, Correct: 1}} // only the rates decide
	return minNoise(one, recipe, confidence, analysis{
		func(_ Outcome, curve Curve, level float64) bool { return r.Refutes(curve, level) },
		func(_ Outcome, curve Curve) float64 {
			return minLevel(func(level float64) bool { return r.Refutes(curve, level) })
		},
	})
}
