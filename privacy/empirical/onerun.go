// These files bound epsilon from below by the number of right guesses that
// an auditor makes about one trained model (Steinke, Nasr and Jagielski 2023,
// Privacy Auditing with One (1) Training Run).
//
// The experiment: m canary units, such as users, are each put into the
// training data or left out by an independent fair coin. After the training,
// every unit has a score, higher where the model seems to know the unit. The
// auditor guesses "in" for some of the highest scores and "out" for some of the lowest, and
// abstains on the remaining ones. The numbers of guesses must be fixed before the scores are seen.
// A model with (epsilon, delta)-differential privacy, for adding or removing a unit, does not allow
// many right guesses:
//
//	outcome, err := empirical.Guess(included, scores, 50, 50)
//	...
//	bound, err := empirical.LowerBound(outcome, 1e-5, 0.95)
//
// The trade-off curve of a known mechanism refutes more than its epsilon (Mahloujifar, Melis and
// Chaudhuri 2024): see [Refutes] and [MinNoise].
//
// The theorems assume independent fair coins. Canaries with different
// probabilities of insertion, or canaries that share a user, violate this
// assumption.

package empirical

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Outcome counts the guesses about m units.
type Outcome struct {
	Units   int `json:"units"`   // units with a coin: m in the paper
	Guesses int `json:"guesses"` // guesses made, at most Units
	Correct int `json:"correct"` // right guesses, at most Guesses
}

// Validate reports every count that is out of range.
func (o Outcome) Validate() error {
	var errs []error
	if o.Units < 1 {
		errs = append(errs, fmt.Errorf("one-run audit of %d units: expected at least 1", o.Units))
	}
	if o.Guesses < 1 || o.Guesses > o.Units {
		errs = append(errs, fmt.Errorf("one-run audit with %d guesses about %d units: expected from 1 to %d", o.Guesses, o.Units, o.Units))
	}
	if o.Correct < 0 || o.Correct > o.Guesses {
		errs = append(errs, fmt.Errorf("one-run audit with %d correct of %d guesses: expected from 0 to %d", o.Correct, o.Guesses, o.Guesses))
	}
	return errors.Join(errs...)
}

// Answer is the auditor's guess about a unit.
type Answer string

// The answers of an auditor.
const (
	In        Answer = "in"
	Out       Answer = "out"
	Abstained Answer = "abstained"
)

// Answers guesses "in" for the guessIn units with the highest scores and "out" for the
// guessOut units with the lowest. Units of equal score are ranked by their index, which
// must not depend on the coins. A NaN score is an error.
func Answers(scores []float64, guessIn, guessOut int) ([]Answer, error) {
	in, out, err := guessed(scores, guessIn, guessOut)
	if err != nil {
		return nil, err
	}
	answers := slices.Repeat([]Answer{Abstained}, len(scores))
	for _, unit := range in {
		answers[unit.index] = In
	}
	for _, unit := range out {
		answers[unit.index] = Out
	}
	return answers, nil
}

// Guess counts the right guesses among the Answers for the scores.
func Guess(included []bool, scores []float64, guessIn, guessOut int) (Outcome, error) {
	if len(included) != len(scores) {
		return Outcome{}, fmt.Errorf("one-run audit with %d coins and %d scores: expected as many of one as of the other", len(included), len(scores))
	}
	answers, err := Answers(scores, guessIn, guessOut)
	if err != nil {
		return Outcome{}, err
	}
	outcome := Outcome{Units: len(scores), Guesses: guessIn + guessOut}
	for i, answer := range answers {
		if answer == In && included[i] || answer == Out && !included[i] {
			outcome.Correct++
		}
	}
	return outcome, outcome.Validate()
}

// scored is a unit by its index and score.
type scored struct {
	score float64
	index int
}

// before reports whether a ranks before b: units are ranked from the highest score to the lowest, by index if equal.
func (a scored) before(b scored) bool {
	return a.score > b.score || a.score == b.score && a.index < b.index
}

func rank(a, b scored) int {
	switch {
	case a.before(b):
		return -1
	case b.before(a):
		return 1
	}
	return 0
}

// guessed returns the units that are guessed in and out, each in any order.
func guessed(scores []float64, guessIn, guessOut int) (in, out []scored, err error) {
	if guessIn < 0 || guessOut < 0 || guessIn+guessOut > len(scores) {
		return nil, nil, fmt.Errorf("one-run audit that guesses %d in and %d out of %d units: expected both 0 or more, together at most %d",
			guessIn, guessOut, len(scores), len(scores))
	}
	units := make([]scored, len(scores))
	for i, score := range scores {
		if math.IsNaN(score) {
			return nil, nil, fmt.Errorf("the score of unit %d of the one-run audit is NaN; expected a number: a model of the two has diverged", i)
		}
		units[i] = scored{score, i}
	}
	selectFirst(units, guessIn)
	rest := units[guessIn:]
	selectFirst(rest, len(rest)-guessOut)
	return units[:guessIn], rest[len(rest)-guessOut:], nil
}

// selectFirst moves the first n units by rank to the front (Hoare's quickselect, with the middle one of three units
// as the pivot).
func selectFirst(units []scored, n int) {
	for len(units) > 16 && 0 < n && n < len(units) {
		three := []scored{units[0], units[len(units)/2], units[len(units)-1]}
		slices.SortFunc(three, rank)
		pivot, low, high := three[1], 0, len(units)-1
		for low <= high {
			for units[low].before(pivot) {
				low++
			}
			for pivot.before(units[high]) {
				high--
			}
			if low <= high {
				units[low], units[high] = units[high], units[low]
				low, high = low+1, high-1
			}
		}
		switch { // units up to high rank first, units from low on last
		case n <= high:
			units = units[:high+1]
		case n >= low:
			units, n = units[low:], n-low
		default:
			return
		}
	}
	if 0 < n && n < len(units) {
		slices.SortFunc(units, rank)
	}
}

// Bound is a lower bound on epsilon that holds with a confidence.
type Bound struct {
	Epsilon    float64 `json:"epsilon"` // 0 or above
	Delta      float64 `json:"delta"`
	Confidence float64 `json:"confidence"`
	// Largest is the bound if all guesses had been right: the largest that this audit could
	// certify.
	Largest float64 `json:"largest"`
}

// LowerBound returns the largest epsilon that the outcome refutes at the given
// confidence, within (0, 1): a mechanism with that epsilon and delta has at
// least as many right guesses with probability at most 1-confidence (Steinke et
// al. 2023, Theorem 5.2). delta is within [0, 1).
func LowerBound(outcome Outcome, delta, confidence float64) (Bound, error) {
	if err := outcome.Validate(); err != nil {
		return Bound{}, err
	}
	if !(delta >= 0 && delta < 1) {
		return Bound{}, fmt.Errorf("delta %v: expected a number from 0 to below 1", delta)
	}
	if err := checkConfidence(confidence); err != nil {
		return Bound{}, err
	}
	perfect := outcome
	perfect.Correct = perfect.Guesses
	return Bound{
		Epsilon: refuted(outcome, delta, 1-confidence), Delta: delta, Confidence: confidence,
		Largest: refuted(perfect, delta, 1-confidence),
	}, nil
}

// refuted returns the largest epsilon with a p-value of at most level, 0 if it refutes none.
func refuted(outcome Outcome, delta, level float64) float64 {
	return greatest(func(epsilon float64) bool { return PValue(outcome, epsilon, delta) <= level })
}

// PValue bounds the probability that a mechanism with (epsilon,
// delta)-differential privacy allows at least as many right guesses as the
// outcome has. The outcome is valid, epsilon 0 or above and delta within [0,
// 1]. With r guesses, v of them right, m units and X binomial over r with
// success probability 1/(1+exp(-epsilon)), the bound is
//
//	P(X >= v) + 2 m delta max over i of P(v-i <= X < v) / i.
func PValue(outcome Outcome, epsilon, delta float64) float64 {
	r, v := outcome.Guesses, outcome.Correct
	mass := binomial(r, epsilon)
	tail := 0.0
	for k := r; k >= v; k-- {
		tail += mass(k)
	}
	below, steepest := 0.0, 0.0
	for i := 1; i <= v; i++ {
		below += mass(v - i)
		steepest = math.Max(steepest, below/float64(i))
	}
	return math.Min(1, tail+2*float64(outcome.Units)*delta*steepest)
}

// binomial returns the probability of k successes in n trials with odds of exp(epsilon) to 1.
func binomial(n int, epsilon float64) func(k int) float64 {
	logAll := logFactorial(n) - float64(n)*math.Log1p(math.Exp(-epsilon))
	return func(k int) float64 {
		return math.Exp(logAll - logFactorial(k) - logFactorial(n-k) - float64(n-k)*epsilon)
	}
}

func logFactorial(n int) float64 {
	value, _ := math.Lgamma(float64(n) + 1)
	return value
}
