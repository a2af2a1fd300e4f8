package privacy_test

import (
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/pld"
)

func group(t *testing.T, r privacy.Recipe, members int) privacy.Group {
	t.Helper()
	return must.Get(privacy.GroupOf(r, members))(t)
}

func TestGroupsCostMoreThanTheirMembers(t *testing.T) {
	t.Parallel()
	for _, sampling := range samplings() {
		r := sampledBy(sampling)
		r.NoiseMultiplier = 4
		last := account(t, r).EpsilonProved
		if g := group(t, r, 1); relative(g.EpsilonProved, last) > 1e-6 {
			t.Errorf("%s: a group of one costs %v, one member %v", sampling, g.EpsilonProved, last)
		}
		for _, members := range []int{2, 4} {
			g := group(t, r, members)
			if !(g.EpsilonProved > 2*last) || math.IsInf(float64(g.EpsilonProved), 1) || g.Members != members {
				t.Errorf("%s: %+v after %v", sampling, g, last)
			}
			last = g.EpsilonProved
		}
	}
}

// Without sampling a group moves the sum as many times as far, exactly.
func TestGroupWithoutSamplingMatchesGaussian(t *testing.T) {
	t.Parallel()
	r := sampledBy(privacy.NoSampling)
	r.Rounds, r.NoiseMultiplier = 100, 50
	want := pld.GaussianEpsilon(50/2./4/10, r.Delta)
	if g := group(t, r, 4); math.Abs(float64(g.EpsilonProved)-want) > 1e-12*want {
		t.Errorf("%+v, want %v", g, want)
	}
}

// The joint effect of four users of one Poisson round, integrated on a fine grid: the number of
// them in the sample is binomial.
func TestAGroupOfOneRoundIsBounded(t *testing.T) {
	t.Parallel()
	r := sampledBy(privacy.Poisson)
	r.Population, r.Cohort, r.Rounds, r.Delta = 1000, 50, 1, 1e-4
	for _, z := range []float64{0.8, 2, 5} {
		r.NoiseMultiplier = z
		if g := group(t, r, 4); fourOfARound(0.05, z, float64(g.EpsilonProved)) > r.Delta {
			t.Errorf("z %v: %+v, where the round has delta %v", z, g, fourOfARound(0.05, z, float64(g.EpsilonProved)))
		}
	}
}

// fourOfARound is the delta of removing four members at epsilon.
func fourOfARound(rate, z, epsilon float64) float64 {
	total := 0.
	const step = 1e-3
	for x := -10 * z; x < 4+10*z; x += step {
		with := 0.
		for j, choose := range []float64{1, 4, 6, 4, 1} {
			n := float64(j)
			with += choose * math.Pow(rate, n) * math.Pow(1-rate, 4-n) * math.Exp(-(x-n)*(x-n)/2/z/z)
		}
		total += step * max(0, with-math.Exp(epsilon-x*x/2/z/z)) / z / math.Sqrt(2*math.Pi)
	}
	return total
}

func TestGroupOfRejectsBadMembersAndRecipes(t *testing.T) {
	t.Parallel()
	for _, members := range []int{0, -1, 392_001} {
		if _, err := privacy.GroupOf(sampledBy(privacy.FixedSize), members); err == nil || !strings.Contains(err.Error(), "expected 1 up to all") {
			t.Errorf("%d members: error %v", members, err)
		}
	}
	wrong := sampledBy(privacy.FixedSize)
	wrong.Cohort = 0
	if _, err := privacy.GroupOf(wrong, 2); err == nil {
		t.Error("a recipe without a cohort was accepted")
	}
}

// The error for an unsupported sampling gives its reason instead of a list of
// names.
func TestSamplingsOfFleetsAreRejectedWithReasons(t *testing.T) {
	t.Parallel()
	for sampling, want := range map[privacy.Sampling]string{
		"with-replacement": "may be drawn several times", "truncated-poisson": "Scalable DP-SGD", "random-allocation": "--sampling shuffled",
	} {
		r := sampledBy(sampling)
		if _, err := privacy.Account(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", sampling, err, want)
		}
	}
}

// If sampling gets no credit, a smaller cohort does not allow more rounds.
func TestTheAdviceOfCalibrationHelps(t *testing.T) {
	t.Parallel()
	for sampling, want := range map[privacy.Sampling]string{
		privacy.FixedSize: "or lower the cohort", privacy.Poisson: "or lower the cohort",
		privacy.NoSampling: "a smaller cohort changes nothing", privacy.Shuffled: "a smaller cohort changes nothing",
	} {
		r := sampledBy(sampling)
		if _, err := privacy.CalibrateRounds(r, privacy.Budget{Epsilon: 1e-3, Delta: 1e-12}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", sampling, err, want)
		}
	}
}

// With room for one member in a sample, a group of k is one member who is k times as likely to be in it.
func TestGroupInSampleIsBoundedByCohort(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 4000, Cohort: 1, Rounds: 500, NoiseMultiplier: 1, Delta: 1e-6, Sampling: privacy.FixedSize}
	one := r
	one.Population = 1000
	if got, want := group(t, r, 4).EpsilonProved, account(t, one).EpsilonProved; relative(got, want) > 1e-9 {
		t.Errorf("four of 4,000 cost %v, one of 1,000 %v", got, want)
	}
	for _, c := range []struct {
		sampling privacy.Sampling
		cohort   int
		squares  float64 // of 1,000 rounds, in clip norms
	}{
		{privacy.NoSampling, 1, 1000}, {privacy.NoSampling, 3, 9000},
		{privacy.Shuffled, 1, 4}, {privacy.Shuffled, 3, 10}, {privacy.Shuffled, 5, 2 * 16}, // two epochs of 800 rounds
		{privacy.Separated, 1, 4}, {privacy.Separated, 3, 10}, {privacy.Separated, 5, 2 * 16},
	} {
		r := r
		r.Population, r.Rounds, r.Cohort, r.Sampling = 4000, 1000, c.cohort, c.sampling
		if c.cohort == 3 && c.sampling != privacy.NoSampling {
			r.Population = 3001
		}
		moves := 2.
		if c.sampling == privacy.Separated {
			moves = 1
		}
		want := privacy.Epsilon(pld.GaussianEpsilon(r.NoiseMultiplier/moves/math.Sqrt(c.squares), r.Delta))
		if got := group(t, r, 4).EpsilonProved; relative(got, want) > 1e-9 {
			t.Errorf("%s, cohorts of %d: %v, want %v", c.sampling, c.cohort, got, want)
		}
	}
}

// Two members with two rounds of a tree, one in each: both leaves, and the node above them twice.
func TestGroupInTreeIsBoundedByRounds(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 10, Cohort: 1, Rounds: 2, NoiseMultiplier: 3, Delta: 1e-6, Tree: &privacy.Participations{Times: 1, Separation: 1}}
	want := privacy.Epsilon(pld.GaussianEpsilon(3/math.Sqrt(6), r.Delta))
	if got := group(t, r, 2).EpsilonProved; relative(got, want) > 1e-9 {
		t.Errorf("two members cost %v, want %v", got, want)
	}
}

func TestLargeGroupsAreCountedAtOnce(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 1 << 60, Cohort: 1 << 40, Rounds: 10, NoiseMultiplier: 1e13, Delta: 1e-6}
	if got := group(t, r, 1<<41).EpsilonProved; math.IsInf(float64(got), 1) || math.IsNaN(float64(got)) {
		t.Errorf("epsilon %v", got)
	}
}
