package privacy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
)

// drawn are the schemes that a training can run.
func drawn() []privacy.Scheme {
	return slices.DeleteFunc(privacy.Schemes(), func(s privacy.Scheme) bool { return !s.Drawn() })
}

func samplings() []privacy.Sampling {
	var all []privacy.Sampling
	for _, s := range privacy.Schemes() {
		all = append(all, s.Sampling)
	}
	return all
}

// draw is the cohort of a round, from a seed of the test's.
func draw(t *testing.T, s privacy.Scheme, number, population, cohort int) []int {
	t.Helper()
	users := must.Get(s.Draw(privacy.Round{
		Number: number, Population: population, Cohort: cohort,
		Stream: func(number int) (*rand.Rand, error) { return rand.New(rand.NewPCG(7, uint64(number))), nil },
	}))(t)
	return users
}

func TestCohortsAreUsersInAscendingOrder(t *testing.T) {
	t.Parallel()
	for _, s := range drawn() {
		for _, population := range []int{1, 2, 30} {
			for number := 1; number <= 200; number++ {
				cohort := 1 + number%population
				users := draw(t, s, number, population, cohort)
				if !slices.IsSorted(users) || len(users) > 0 && (users[0] < 0 || users[len(users)-1] >= population) {
					t.Fatalf("%s: cohort %v of %d users", s.Sampling, users, population)
				}
				if again := draw(t, s, number, population, cohort); !slices.Equal(users, again) {
					t.Fatalf("%s: round %d has the cohorts %v and %v", s.Sampling, number, users, again)
				}
			}
		}
	}
}

// Whatever the scheme, a clipped sum is divided by the cohort that was asked for,
// and accounting takes every user to come equally often.
func TestUsersTakePartAtSamplingRate(t *testing.T) {
	t.Parallel()
	const population, cohort, rounds = 30, 6, 4000
	for _, s := range drawn() {
		counts, total := make([]float64, population), 0
		for number := 1; number <= rounds; number++ {
			users := draw(t, s, number, population, cohort)
			total += len(users)
			for _, u := range users {
				counts[u]++
			}
		}
		// The rounds of a user are binomial(4000, 1/5), standard deviation 25.3; beyond
		// 5 of them with probability 6e-7 each, 2e-5 in all. The total of independent
		// users has standard deviation 139, beyond 5 of them 6e-7. The seed is fixed.
		for user, n := range counts {
			if math.Abs(n-rounds/5) > 127 {
				t.Errorf("%s: user %d took part %v times in 4,000 rounds, expected about 800", s.Sampling, user, n)
			}
		}
		if math.Abs(float64(total)-rounds*cohort) > 695 {
			t.Errorf("%s: %d users in 4,000 rounds, expected about 24,000", s.Sampling, total)
		}
	}
}

func TestACohortOfFixedSizeHasThatSize(t *testing.T) {
	t.Parallel()
	s := must.Get(privacy.FindScheme(privacy.FixedSize))(t)
	for number := range 500 {
		users := draw(t, s, number, 40, 9)
		if len(slices.Compact(users)) != 9 {
			t.Fatalf("round %d: cohort %v, want 9 different users", number, users)
		}
	}
}

func TestAShuffledPopulationComesOnceAnEpoch(t *testing.T) {
	t.Parallel()
	s := must.Get(privacy.FindScheme(privacy.Shuffled))(t)
	const population, cohort, epoch = 23, 5, 4 // three users sit each epoch out
	var last []int
	for number := 1; number <= 10*epoch; number += epoch {
		var all []int
		for i := range epoch {
			all = append(all, draw(t, s, number+i, population, cohort)...)
		}
		if users := slices.Sorted(slices.Values(all)); len(slices.Compact(users)) != epoch*cohort {
			t.Fatalf("the epoch of round %d has the cohorts %v, want every user once at most", number, all)
		}
		if slices.Equal(all, last) {
			t.Errorf("the epoch of round %d has the order of the one before", number)
		}
		last = all
	}
}

// TensorFlow Privacy's statement for 10,000 examples in batches of 64 over 5 epochs, at
// noise multiplier 1 and delta 1e-6, each example once an epoch.
func TestShuffledEpochCostsOneGaussianMechanism(t *testing.T) {
	t.Parallel()
	recipe := privacy.Recipe{
		Population: 10_000, Cohort: 64, NoiseMultiplier: 2, Delta: 1e-6, // replacing one: sigma = 1
		Sampling: privacy.Shuffled, Conversion: privacy.Improved, Unit: privacy.RecordUnit, LossDistribution: true,
	}
	const epoch = 10_000 / 64
	reports := must.Get(privacy.Sweep(privacy.Account, recipe, []int{0, 1, epoch, 4*epoch + 1, 5 * epoch, 5*epoch + 1}))(t)
	proved := func(i int) float64 { return float64(reports[i].EpsilonProved) }
	if proved(0) != 0 || proved(1) != proved(2) || proved(3) != proved(4) || !(proved(5) > proved(4)) {
		t.Errorf("after %v steps of epochs of %d: %v", []int{0, 1, epoch, 4*epoch + 1, 5 * epoch, 5*epoch + 1}, epoch, reports)
	}
	if renyi := float64(reports[4].EpsilonRenyi); math.Abs(renyi-13.376) > 5e-4 {
		t.Errorf("five epochs cost %.4f, TensorFlow Privacy prints 13.376", renyi)
	}
	if loss := reports[4].LossDistribution; loss == nil || !(float64(loss.Lower) < 12.5955 && float64(loss.Upper) > 12.5945) {
		t.Errorf("its loss distribution says %+v, TensorFlow Privacy 12.595", loss)
	}
	if text := strings.Join(reports[4].Assumptions, "; "); strings.ContainsAny(text, "{}") || strings.Contains(text, "user") || !strings.Contains(text, "every record takes part once an epoch at most") {
		t.Errorf("the assumptions are %q", text)
	}
}

func TestACohortNeedsTheStreamOfItsRound(t *testing.T) {
	t.Parallel()
	for _, s := range drawn() {
		_, err := s.Draw(privacy.Round{
			Number: 1, Population: 5, Cohort: 2,
			Stream: func(int) (*rand.Rand, error) { return nil, fmt.Errorf("no key here") },
		})
		if err == nil || !strings.Contains(err.Error(), "no key here") {
			t.Errorf("%s: error %v, want that of the stream", s.Sampling, err)
		}
	}
}

func TestEverySchemeIsDescribedAndAccounted(t *testing.T) {
	t.Parallel()
	for _, s := range privacy.Schemes() {
		if s.Summary == "" || s.Source == "" || s.Neighbouring != s.Sampling.Neighbouring() {
			t.Errorf("the entry of %s lacks a summary, a source or its relation", s.Sampling)
		}
		r := must.Get(privacy.Account(privacy.Recipe{
			Population: 1000, Cohort: 10, Rounds: 50, NoiseMultiplier: 1, Delta: 1e-6, Sampling: s.Sampling,
		}))(t)
		if r.Infinite || !(r.EpsilonRenyi >= r.Epsilon) || r.EpsilonProved > r.EpsilonRenyi || r.AccountantProved == "" || r.TheoremProved == "" || r.Accountant == "" || len(r.Assumptions) < 3 || r.Sampling != s.Sampling {
			t.Errorf("%s: report %+v", s.Sampling, r)
		}
	}
}

func TestUnknownSamplingIsNotAccounted(t *testing.T) {
	t.Parallel()
	if n := privacy.Sampling("alphabetical").Neighbouring(); n != "" {
		t.Errorf("relation %q", n)
	}
	recipe := privacy.Recipe{Population: 1000, Cohort: 10, Rounds: 50, NoiseMultiplier: 1, Delta: 1e-6, Sampling: "alphabetical"}
	if _, err := privacy.NewMeter(recipe); err == nil || !strings.Contains(err.Error(), `sampling "alphabetical": expected one of fixed-size, poisson, shuffled, separated, none`) {
		t.Errorf("a meter for it: error %v", err)
	}
	report := privacy.Report{Epsilon: 1, EpsilonProved: 2, Neighbouring: "replace-half"}
	if !strings.Contains(report.Summary(), "papers' convention") {
		t.Errorf("a report under an unknown relation counts as proved: %s", report.Summary())
	}
}

// The grounds exist before the first round, and equal those of the report at the
// end.
func TestGroundsMatchReport(t *testing.T) {
	t.Parallel()
	for _, s := range privacy.Schemes() {
		recipe := privacy.Recipe{Population: 1000, Cohort: 10, Rounds: 50, NoiseMultiplier: 1, Delta: 1e-6, Sampling: s.Sampling, Unit: "user", Randomness: privacy.Seeded}
		if s.Sampling == privacy.Separated {
			recipe.Separation, recipe.Participations = 10, 5
		}
		report := must.Get(privacy.Account(recipe))(t)
		got, err := privacy.GroundsOf(recipe)
		if err != nil || !slices.Equal(got.Assumptions, report.Assumptions) || !slices.Equal(got.NotCovered, report.NotCovered) || got.HoldsAgainst != report.HoldsAgainst || got.Validity != report.Validity() || len(got.Assumptions) < 3 {
			t.Errorf("%s: %+v, %v; the report rests on %q", s.Sampling, got, err, report.Assumptions)
		}
	}
	if _, err := privacy.GroundsOf(privacy.Recipe{Cohort: -1}); err == nil {
		t.Error("grounds of no recipe")
	}
}
