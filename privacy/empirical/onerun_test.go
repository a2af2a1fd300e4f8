package empirical_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy/empirical"
)

// Results published with the audit of CoDeDP (audit_results.json on Hugging
// Face), whose search stops at about 1e-9.
func TestLowerBoundMatchesPublishedValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		guesses, correct int
		level, want      float64
	}{
		{100, 100, 0.05, 3.4791953936219215}, {100, 100, 0.01, 3.023197554051876},
		{35, 23, 0.05, 0.014548719860613346}, {100, 60, 0.05, 0.05073561053723097},
		{30, 23, 0.05, 0.42648759204894304}, {30, 23, 0.01, 0.16005427204072475},
	} {
		got := must.Get(empirical.LowerBound(empirical.Outcome{Units: 500, Guesses: c.guesses, Correct: c.correct}, 1e-5, 1-c.level))(t)
		if math.Abs(got.Epsilon-c.want) > 1e-8 {
			t.Errorf("%d of %d at %v: epsilon %v, published %v", c.correct, c.guesses, c.level, got.Epsilon, c.want)
		}
		if got.Largest < got.Epsilon {
			t.Errorf("%d of %d: bound %v above the largest possible %v", c.correct, c.guesses, got.Epsilon, got.Largest)
		}
	}
}

func TestBoundGrowsWithCorrectGuessesAndFallsWithConfidence(t *testing.T) {
	t.Parallel()
	bound := func(correct int, confidence float64) float64 {
		b := must.Get(empirical.LowerBound(empirical.Outcome{Units: 200, Guesses: 60, Correct: correct}, 1e-6, confidence))(t)
		return b.Epsilon
	}
	for correct := 1; correct <= 60; correct++ {
		if bound(correct, 0.95) < bound(correct-1, 0.95) || bound(correct, 0.99) > bound(correct, 0.95) {
			t.Errorf("%d correct guesses: bounds %v and, more confident, %v; one fewer %v",
				correct, bound(correct, 0.95), bound(correct, 0.99), bound(correct-1, 0.95))
		}
	}
	if b := bound(30, 0.95); b != 0 {
		t.Errorf("half of the guesses right gave epsilon %v", b)
	}
}

// Randomized response with epsilon 1 keeps every coin with probability
// e/(1+e), and nothing does better. At confidence 0.95 a bound may pass 1 in at
// most 5% of runs: of 100, more than 14 with probability below 0.0002.
func TestBoundHoldsForRandomizedResponse(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewChaCha8([32]byte{1}))
	keep := math.E / (1 + math.E)
	passed, useful := 0, 0
	for range 100 {
		included, scores := make([]bool, 500), make([]float64, 500)
		for i := range included {
			included[i] = rng.Float64() < 0.5
			if included[i] == (rng.Float64() < keep) {
				scores[i] = 1
			}
		}
		outcome := must.Get(empirical.Guess(included, scores, 100, 100))(t)
		bound := must.Get(empirical.LowerBound(outcome, 0, 0.95))(t)
		if bound.Epsilon > 1 {
			passed++
		}
		if bound.Epsilon > 0.5 {
			useful++
		}
	}
	if passed > 14 || useful < 90 {
		t.Errorf("of 100 bounds %d are above the true epsilon, and %d above half of it", passed, useful)
	}
}

func TestGuessCountsBothEnds(t *testing.T) {
	t.Parallel()
	included := []bool{true, false, true, false, true}
	scores := []float64{9, 8, math.Inf(-1), 1, 5}
	got, err := empirical.Guess(included, scores, 2, 2) // in: 0, 1; out: 3, 2
	if err != nil {
		t.Fatal(err)
	}
	if want := (empirical.Outcome{Units: 5, Guesses: 4, Correct: 2}); got != want {
		t.Errorf("outcome %+v, expected %+v", got, want)
	}
	scores[3] = math.NaN()
	if _, err := empirical.Guess(included, scores, 2, 2); err == nil || !strings.Contains(err.Error(), "the score of unit 3 of the one-run audit is NaN") {
		t.Errorf("error %v, want the unit whose score is NaN", err)
	}
}

func TestBadArgumentsAreErrors(t *testing.T) {
	t.Parallel()
	fine := empirical.Outcome{Units: 10, Guesses: 5, Correct: 5}
	for name, call := range map[string]func() error{
		"no units":          func() error { return empirical.Outcome{}.Validate() },
		"too many guesses":  func() error { return empirical.Outcome{Units: 2, Guesses: 3}.Validate() },
		"too many correct":  func() error { return empirical.Outcome{Units: 5, Guesses: 3, Correct: 4}.Validate() },
		"delta 1":           func() error { _, err := empirical.LowerBound(fine, 1, 0.9); return err },
		"confidence 1":      func() error { _, err := empirical.LowerBound(fine, 0, 1); return err },
		"invalid outcome":   func() error { _, err := empirical.LowerBound(empirical.Outcome{}, 0, 0.9); return err },
		"coins and scores":  func() error { _, err := empirical.Guess([]bool{true}, nil, 0, 0); return err },
		"guesses and units": func() error { _, err := empirical.Guess([]bool{true}, []float64{1}, 1, 1); return err },
		"no guesses":        func() error { _, err := empirical.Guess([]bool{true}, []float64{1}, 0, 0); return err },
	} {
		if call() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// Scores of few values are equal for many units.
func TestAnswersMatchWholeRanking(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	for n := range 300 {
		scores := make([]float64, n)
		for i := range scores {
			scores[i] = float64(rng.IntN(1 + n/(1+rng.IntN(4))))
		}
		in := rng.IntN(n + 1)
		out := rng.IntN(n + 1 - in)
		answers, err := empirical.Answers(scores, in, out)
		if err != nil {
			t.Fatal(err)
		}
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
		for place, unit := range order {
			want := empirical.Abstained
			if place < in {
				want = empirical.In
			} else if place >= n-out {
				want = empirical.Out
			}
			if answers[unit] != want {
				t.Fatalf("%d in and %d out of %v: unit %d is guessed %s, want %s", in, out, scores, unit, answers[unit], want)
			}
		}
	}
}
