package privacy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/privacy/pld"
)

// participations are the rounds of every user of a separated training.
func participations(t rapid.TB, r privacy.Round, rounds int) ([][]int, error) {
	t.Helper()
	scheme := must.Get(privacy.FindScheme(privacy.Separated))(t)
	r.Stream = func(number int) (*rand.Rand, error) { return rand.New(rand.NewPCG(7, uint64(number))), nil }
	of := make([][]int, r.Population)
	for r.Number = 1; r.Number <= rounds; r.Number++ {
		users, err := scheme.Draw(r)
		if err != nil {
			return of, err
		}
		if len(users) != r.Cohort || !slices.IsSorted(users) || len(slices.Compact(slices.Clone(users))) != r.Cohort {
			t.Fatalf("round %d has the users %v, want %d different ones in ascending order", r.Number, users, r.Cohort)
		}
		for _, u := range users {
			of[u] = append(of[u], r.Number)
		}
	}
	return of, nil
}

func TestSeparatedCohortsKeepSeparationAndParticipations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		population := rapid.IntRange(1, 60).Draw(t, "population")
		cohort := rapid.IntRange(1, population).Draw(t, "cohort")
		separation := rapid.IntRange(0, population/cohort).Draw(t, "separation")
		rounds := rapid.IntRange(1, 120).Draw(t, "rounds")
		recipe := privacy.Recipe{Population: population, Cohort: cohort, Separation: separation}
		p := recipe.Participation(rounds)
		of := must.Get(participations(t, privacy.Round{Population: population, Cohort: cohort, Separation: separation, Participations: p.Times}, rounds))(t)
		most := 0
		for user, taken := range of {
			most = max(most, len(taken))
			for i := 1; i < len(taken); i++ {
				if taken[i]-taken[i-1] < p.Separation {
					t.Fatalf("user %d takes part in the rounds %v, want %d between at least", user, taken, p.Separation)
				}
			}
		}
		if most > p.Times || population%(cohort*p.Separation) == 0 && most != p.Times {
			t.Fatalf("somebody takes part %d times, accounted for are %d", most, p.Times)
		}
	})
}

func TestRoundBeyondParticipationsIsRejected(t *testing.T) {
	t.Parallel()
	_, err := participations(t, privacy.Round{Population: 20, Cohort: 5, Separation: 4, Participations: 3}, 13)
	if err == nil || !strings.Contains(err.Error(), "in round 13 a user would take part for time 4: expected 3 times at most") {
		t.Errorf("error %v", err)
	}
	if _, err := participations(t, privacy.Round{Population: 20, Cohort: 5, Separation: 5}, 1); err == nil || !strings.Contains(err.Error(), "takes 25 users, and there are 20") {
		t.Errorf("error %v", err)
	}
}

func ftrl(m *correlated.Mechanism) privacy.Recipe {
	return privacy.Recipe{
		Population: 2000, Cohort: 10, Rounds: 64, NoiseMultiplier: 3, Delta: 1e-6, Sampling: privacy.Separated, Separation: 20, Mechanism: m,
	}
}

func cost(t *testing.T, r privacy.Recipe) privacy.Report {
	t.Helper()
	return must.Get(privacy.Account(r))(t)
}

// All rounds together are one Gaussian mechanism (Denisov et al. 2022, Theorem 2.1).
func TestCorrelatedNoiseCostsOneGaussianMechanism(t *testing.T) {
	t.Parallel()
	blt := &correlated.Mechanism{Kind: correlated.KindBLT, Scales: []float64{0.1, 0.3}, Decays: []float64{0.99, 0.7}}
	for _, c := range []struct {
		mechanism *correlated.Mechanism
		strategy  correlated.Strategy
	}{
		{nil, correlated.Independently()}, {blt, correlated.BLT{Scales: blt.Scales, Decays: blt.Decays}},
		{&correlated.Mechanism{Kind: correlated.KindBanded, Coefficients: []float64{1, 0.5}}, correlated.Banded{Coefficients: []float64{1, 0.5}}},
		{&correlated.Mechanism{Kind: correlated.KindTree}, correlated.Tree{}},
	} {
		r := ftrl(c.mechanism)
		report := cost(t, r)
		// 64 rounds of groups of 100, each of which comes in ten rounds of its own: once.
		squared := must.Get(c.strategy.SquaredSensitivity(correlated.Participation{Rounds: 64, Separation: 20, Times: 1}))(t)
		if want := pld.GaussianEpsilon(3/math.Sqrt(squared), 1e-6); math.Abs(float64(report.EpsilonProved)/want-1) > 1e-4 {
			t.Errorf("%+v: epsilon %v, one Gaussian has %v", c.mechanism, report.EpsilonProved, want)
		}
		if report.Participations != 1 || report.Separation != 20 || math.Abs(report.Sensitivity-math.Sqrt(squared)) > 1e-12 ||
			math.Abs(float64(report.Rho)/(squared/18)-1) > 1e-12 || report.Neighbouring != privacy.ZeroOutOne || report.AccountantProved != privacy.PLD {
			t.Errorf("%+v: report %+v", c.mechanism, report)
		}
		if report.Epsilon != report.EpsilonRenyi || report.EpsilonProved > report.Epsilon {
			t.Errorf("%+v: epsilons %v, %v, %v", c.mechanism, report.Epsilon, report.EpsilonRenyi, report.EpsilonProved)
		}
	}
}

func TestTreeMechanismOverOneEpochMatchesTree(t *testing.T) {
	t.Parallel()
	r := ftrl(&correlated.Mechanism{Kind: correlated.KindTree})
	r.Separation, r.Rounds = 0, 200
	once := r
	once.Mechanism = nil
	tree := must.Get(privacy.Tree(once))(t)
	if got := cost(t, r); got.EpsilonProved != tree.EpsilonProved || got.Rho != tree.Rho {
		t.Errorf("epsilon %v, rho %v; the tree has %v, %v", got.EpsilonProved, got.Rho, tree.EpsilonProved, tree.Rho)
	}
}

func TestMoreRoundsCostMore(t *testing.T) {
	t.Parallel()
	for _, kind := range []*correlated.Mechanism{
		nil, {Kind: correlated.KindTree}, {Kind: correlated.KindBLT, Scales: []float64{0.1, 0.3}, Decays: []float64{0.99, 0.7}},
	} {
		meter := must.Get(privacy.NewMeter(ftrl(kind)))(t)
		last := 0.0
		for _, rounds := range []int{0, 1, 5, 20, 21, 64, 400, 401, 5000} {
			epsilon := meter.EpsilonProved(rounds, 1e-6)
			if epsilon < last || math.IsInf(epsilon, 1) {
				t.Errorf("%+v: %d rounds cost %v, fewer %v", kind, rounds, epsilon, last)
			}
			last = epsilon
		}
		budget := privacy.Budget{Epsilon: last, Delta: 1e-6}
		if n := budget.RoundsWithin(meter); n < 5000 || !budget.Allows(meter, n) || n < privacy.MaxRounds && budget.Allows(meter, n+1) {
			t.Errorf("%+v: a budget for 5,000 rounds allows %d", kind, n)
		}
	}
}

func TestNoiseIsCalibratedToCorrelation(t *testing.T) {
	t.Parallel()
	r := ftrl(&correlated.Mechanism{Kind: correlated.KindBLT, Scales: []float64{0.1, 0.3}, Decays: []float64{0.99, 0.7}})
	z := must.Get(privacy.CalibrateNoise(r, privacy.Budget{Epsilon: 4, Delta: 1e-6}))(t)
	r.NoiseMultiplier = z
	if got := cost(t, r).EpsilonProved; got > 4 || got < 3.999 {
		t.Errorf("noise %v costs %v, want a little less than 4", z, got)
	}
}

func TestCorrelatedNoiseRejectsIncompatibleRecipes(t *testing.T) {
	t.Parallel()
	tree := &correlated.Mechanism{Kind: correlated.KindTree}
	for want, change := range map[string]func(r *privacy.Recipe){
		"expected separated sampling": func(r *privacy.Recipe) { r.Sampling, r.Separation = privacy.Poisson, 0 },
		"expected a fixed clip norm": func(r *privacy.Recipe) {
			r.ClipQuantile = &privacy.ClipQuantile{Target: 0.5, LearningRate: 0.2, CountNoise: 9}
		},
		"takes 2010 users, and there are 2000":       func(r *privacy.Recipe) { r.Separation = 201 },
		`mechanism "bush": expected one of blt`:      func(r *privacy.Recipe) { r.Mechanism = &correlated.Mechanism{Kind: "bush"} },
		"expected one of each for every buffer":      func(r *privacy.Recipe) { r.Mechanism = &correlated.Mechanism{Kind: correlated.KindBLT} },
		fmt.Sprint(privacy.MaxCorrelatedRounds):      func(r *privacy.Recipe) { r.Rounds = privacy.MaxCorrelatedRounds + 1 },
		"expected 1 or more of each, or 0 for those": func(r *privacy.Recipe) { r.Participations = -1 },
	} {
		r := ftrl(tree)
		change(&r)
		if _, err := privacy.Account(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
