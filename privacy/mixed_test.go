package privacy_test

import (
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/pld"
)

// sampledBy is a training of 784 rounds.
func sampledBy(s privacy.Sampling) privacy.Recipe {
	r := tenEpochs()
	r.Sampling = s
	return r
}

// treeOf returns tree aggregation of a number of rounds, each user in one.
func treeOf(rounds int, z float64) privacy.Recipe {
	r := tenEpochs()
	r.Cohort, r.Rounds, r.NoiseMultiplier, r.Tree = 100, rounds, z, &privacy.Participations{Times: 1}
	return r
}

// always is a training whose cohorts are the whole population.
func always(s privacy.Sampling, z float64) privacy.Recipe {
	r := sampledBy(s)
	r.Cohort, r.Rounds, r.NoiseMultiplier = r.Population, 1, z
	return r
}

// For replacing a user, a Poisson sample counts as one of fixed size, and the tree of one round
// as a round that has everybody; both for making a user's updates zero, too.
func TestComposeOfMixedRelationsMatchesEquivalents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		relation  privacy.Neighbouring
		mixed, as []privacy.Recipe
	}{
		{privacy.ReplaceOne, []privacy.Recipe{sampledBy(privacy.FixedSize), sampledBy(privacy.Poisson)}, []privacy.Recipe{sampledBy(privacy.FixedSize), sampledBy(privacy.FixedSize)}},
		{privacy.ReplaceOne, []privacy.Recipe{sampledBy(privacy.FixedSize), treeOf(1, 3)}, []privacy.Recipe{sampledBy(privacy.FixedSize), always(privacy.NoSampling, 3)}},
		{privacy.ZeroOutOne, []privacy.Recipe{sampledBy(privacy.Poisson), treeOf(1, 3)}, []privacy.Recipe{sampledBy(privacy.Poisson), always(privacy.Poisson, 3)}},
		{privacy.ZeroOutOne, []privacy.Recipe{treeOf(1, 3), treeOf(7, 3)}, []privacy.Recipe{treeOf(1, 3), treeOf(7, 3)}},
	} {
		got, want := compose(t, 1e-7, c.mixed...), compose(t, 1e-7, c.as...)
		if got.Neighbouring != c.relation || got.AccountantProved != privacy.PLD || relative(got.EpsilonProved, want.EpsilonProved) > 1e-9 {
			t.Errorf("%+v, want epsilon_proved %v under %s", got, want.EpsilonProved, c.relation)
		}
	}
}

// The Rényi divergences of a replacement are those of the pair, for every sampling.
func TestMixedTrainingsAreProvedByDivergencesToo(t *testing.T) {
	t.Parallel()
	var recipes [2][]privacy.Recipe
	for i, other := range []privacy.Sampling{privacy.Poisson, privacy.FixedSize} {
		for _, s := range []privacy.Sampling{privacy.FixedSize, other} {
			r := sampledBy(s)
			r.Accountant = privacy.RDPPair
			recipes[i] = append(recipes[i], r)
		}
	}
	got, want := compose(t, 1e-7, recipes[0]...), compose(t, 1e-7, recipes[1]...)
	if got.AccountantProved != privacy.RDP || got.EpsilonProved != got.EpsilonRenyi || relative(got.EpsilonProved, want.EpsilonProved) > 1e-12 {
		t.Errorf("%+v, want epsilon_proved %v", got, want.EpsilonProved)
	}
	if !strings.Contains(got.TheoremProved, "samples of fixed size") || !strings.Contains(got.TheoremProved, "Poisson samples") {
		t.Errorf("theorem %q", got.TheoremProved)
	}
}

// hockeyStick integrates on a fine grid the excess of the mixture of normals around 0 and 1,
// with rate of the second, over exp(epsilon) times the mixture around 0 and -1.
func hockeyStick(rate, z, epsilon float64) float64 {
	density := func(x float64) float64 { return math.Exp(-x*x/2/z/z) / z / math.Sqrt(2*math.Pi) }
	total := 0.
	const step = 4e-3
	for x := -12 * z; x < 1+12*z; x += step {
		mine, others := (1-rate)*density(x)+rate*density(x-1), (1-rate)*density(x)+rate*density(x+1)
		total += step * max(0, mine-math.Exp(epsilon)*others)
	}
	return total
}

// The exchange of a user at one end of the clip norm for another at the other end, in a
// Poisson sample, is no easier to detect than the pair.
func TestReplacingAUserOfAPoissonSampleIsWithinThePair(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rate, z float64 }{{0.01, 1}, {0.3, 0.8}, {0.9, 2}, {1, 1.5}} {
		for _, epsilon := range []float64{0, 0.1, 0.5, 1, 2} {
			bound := must.Get(pld.FixedSizeDelta([]pld.Step{{Rate: c.rate, Sigma: c.z / 2, Rounds: 1}}, epsilon))(t)
			if got := hockeyStick(c.rate, c.z, epsilon); got > bound.Upper*(1+1e-5)+1e-12 {
				t.Errorf("%+v, epsilon %v: delta %v of the sample, %v of the pair", c, epsilon, got, bound.Upper)
			}
		}
	}
}

func TestTreeCostGrowsWithReturns(t *testing.T) {
	t.Parallel()
	r := treeOf(400, 5)
	r.Delta, r.Population = 1e-6, 10_000
	last := 0.
	for _, p := range []privacy.Participations{{Times: 4, Separation: 90}, {Times: 4, Separation: 20}, {Times: 10, Separation: 20}} {
		r.Tree = &p
		report := account(t, r)
		if rho := float64(report.Rho); !(rho > last) || report.AccountantProved != privacy.PLD || report.Neighbouring != privacy.ZeroOutOne {
			t.Errorf("%+v: rho %v after %v, %+v", p, rho, last, report)
		}
		last = float64(report.Rho)
	}
}

func TestImpossibleTreesAreRejected(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*privacy.Recipe){
		"0 participations of a user":                 func(r *privacy.Recipe) { r.Tree = &privacy.Participations{} },
		"257 participations of a user":               func(r *privacy.Recipe) { r.Tree = &privacy.Participations{Times: 257} },
		"a separation of -1 rounds":                  func(r *privacy.Recipe) { r.Tree = &privacy.Participations{Times: 2, Separation: -1} },
		"more than one epoch":                        func(r *privacy.Recipe) { r.Rounds = 4000 },
		"can take part in, 2 times each":             func(r *privacy.Recipe) { r.Rounds, r.Tree = 8000, &privacy.Participations{Times: 2, Separation: 1} },
		"takes more users than the 392000 there are": func(r *privacy.Recipe) { r.Rounds, r.Tree = 7000, &privacy.Participations{Times: 2, Separation: 3921} },
		"expected at most 1048576 rounds": func(r *privacy.Recipe) {
			r.Rounds, r.Cohort, r.Tree = 1<<21, 1, &privacy.Participations{Times: 9, Separation: 1}
		},
		"delta 2: expected a number above 0":         func(r *privacy.Recipe) { r.Delta = 2 },
		"tree aggregation over 0 steps: expected at": func(r *privacy.Recipe) { r.Rounds = 0 },
	} {
		r := treeOf(100, 1)
		change(&r)
		if _, err := privacy.Account(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := privacy.NewMeter(treeOf(10, 1)); err == nil || !strings.Contains(err.Error(), "no cost by rounds") {
		t.Errorf("a meter of a tree: error %v", err)
	}
}

// Rounds 1 and 41 are 40 apart: a separation of 40 allows both, as in a training.
func TestTreeSeparationMatchesTraining(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 2000, Cohort: 40, Rounds: 41, NoiseMultiplier: 1, Delta: 1e-6}
	training := r
	training.Sampling, training.Separation = privacy.Separated, 40
	if p := training.Participation(41); p.Times != 2 {
		t.Fatalf("a training allows %d participations", p.Times)
	}
	for separation, squares := range map[int]float64{40: 6 + 1, 41: 6} { // nodes above round 1, and round 41 alone
		r.Tree = &privacy.Participations{Times: 2, Separation: separation}
		if rho := float64(account(t, r).Rho); math.Abs(2*rho-squares) > 1e-12 {
			t.Errorf("a separation of %d has the squared sensitivity %v, want %v", separation, 2*rho, squares)
		}
	}
}

// If the worst rounds of a user take too long to find, each level of the tree has its own.
func TestATreeWithTooManyPlacementsIsBoundedByItsLevels(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 100_000_000, Cohort: 1, Rounds: 1_000_000, NoiseMultiplier: 1, Delta: 1e-9, Tree: &privacy.Participations{Times: 100, Separation: 1000}}
	report := account(t, r)
	// At least 100 users of each of the ten lowest levels, and those that fit below the nodes of
	// higher ones.
	if rho := float64(report.Rho); !(2*rho > 1000) || !(2*rho < 100*100*20) || !strings.Contains(report.TheoremProved, "for each level of the tree") {
		t.Errorf("rho %v by %s", rho, report.TheoremProved)
	}
}
