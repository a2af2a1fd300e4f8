package privacy_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/privacy/pld"
)

func drawRecipe(t *rapid.T) privacy.Recipe {
	population := rapid.IntRange(2, 1_000_000).Draw(t, "population")
	return privacy.Recipe{
		Population: population, Cohort: rapid.IntRange(1, population).Draw(t, "cohort"),
		Rounds:          int(logUniform(t, "rounds", 1, 1e6)),
		NoiseMultiplier: logUniform(t, "noise", 0.01, 100), Delta: logUniform(t, "delta", 1e-12, 0.5),
		Sampling:   rapid.SampledFrom(samplings()).Draw(t, "sampling"),
		Conversion: rapid.SampledFrom([]privacy.Conversion{privacy.Classic, privacy.Improved}).Draw(t, "conversion"),
	}
}

func logUniform(t *rapid.T, name string, low, high float64) float64 {
	return math.Exp(rapid.Float64Range(math.Log(low), math.Log(high)).Draw(t, name))
}

// The solution stays within the budget, and a little more does not.
func TestCalibrationIsTightForBudget(t *testing.T) {
	t.Parallel()
	solvers := map[string]func(*rapid.T, privacy.Recipe, privacy.Budget){
		"noise": checkNoise, "rounds": checkRounds, "cohort": checkCohort,
	}
	rapid.Check(t, func(t *rapid.T) {
		recipe := drawRecipe(t)
		recipe.Accountant = rapid.SampledFrom([]privacy.Accountant{privacy.RDP, privacy.RDP, privacy.RDP, privacy.Tightest}).Draw(t, "accountant")
		budget := privacy.Budget{Epsilon: logUniform(t, "epsilon", 0.05, 1e4), Delta: recipe.Delta}
		solvers[rapid.SampledFrom([]string{"noise", "rounds", "cohort"}).Draw(t, "solve")](t, recipe, budget)
	})
}

func proved(t *rapid.T, r privacy.Recipe) float64 { return float64(account(t, r).EpsilonProved) }

func checkNoise(t *rapid.T, recipe privacy.Recipe, budget privacy.Budget) {
	at := func(z float64) float64 {
		recipe.NoiseMultiplier = z
		return proved(t, recipe)
	}
	z, err := privacy.CalibrateNoise(recipe, budget)
	switch {
	case err != nil && at(1e6) <= budget.Epsilon:
		t.Errorf("noise 1e6 costs %v, within %+v: %v", at(1e6), budget, err)
	case err == nil && (at(z) > budget.Epsilon || z > 2e-3 && at(z*(1-3e-5)) <= budget.Epsilon):
		t.Errorf("noise %v costs %v, a little less %v; %+v", z, at(z), at(z*(1-3e-5)), recipe)
	}
}

func checkRounds(t *rapid.T, recipe privacy.Recipe, budget privacy.Budget) {
	meter := must.Get(privacy.NewMeter(recipe))(t)
	n := budget.RoundsWithin(meter)
	fits := func(rounds int) bool { return meter.EpsilonProved(rounds, budget.Delta) <= budget.Epsilon }
	if !fits(n) || n < privacy.MaxRounds && fits(n+1) {
		t.Errorf("%d rounds cost %v, one more %v; %+v, %+v",
			n, meter.EpsilonProved(n, budget.Delta), meter.EpsilonProved(n+1, budget.Delta), recipe, budget)
	}
}

// A budget allows as many rounds as a count from the first one does, whatever the noise is
// correlated by and however often a user may take part.
func TestABudgetAllowsTheRoundsThatACountAllows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		recipe := drawSeparated(t)
		recipe.Accountant = rapid.SampledFrom([]privacy.Accountant{privacy.RDP, privacy.Tightest}).Draw(t, "accountant")
		meter := must.Get(privacy.NewMeter(recipe))(t)
		most := rapid.IntRange(0, 80).Draw(t, "most rounds")
		budget := privacy.Budget{Epsilon: 1.001*meter.EpsilonProved(most, recipe.Delta) + 1e-3, Delta: recipe.Delta}
		fits := func(rounds int) bool { return meter.EpsilonProved(rounds, budget.Delta) <= budget.Epsilon }
		want := 0
		for ; want < 300 && fits(want+1); want++ {
			if !budget.Allows(meter, want+1) {
				t.Fatalf("%d rounds fit, and are not allowed; %+v, %+v", want+1, recipe, budget)
			}
		}
		if got := budget.RoundsWithin(meter); got != want && want < 300 || got < want || want < 300 && budget.Allows(meter, want+1) {
			t.Errorf("%d rounds are allowed, %d fit; %+v, %+v", got, want, recipe, budget)
		}
	})
}

// drawSeparated is a recipe whose noise may be correlated.
func drawSeparated(t *rapid.T) privacy.Recipe {
	cohort, separation := rapid.IntRange(1, 5).Draw(t, "cohort"), rapid.IntRange(1, 12).Draw(t, "separation")
	bands := []float64{1}
	for range rapid.IntRange(0, 6).Draw(t, "bands") {
		bands = append(bands, bands[len(bands)-1]*rapid.Float64Range(0, 1).Draw(t, "falls to"))
	}
	return privacy.Recipe{
		Population: cohort*separation + rapid.IntRange(0, 100).Draw(t, "others"), Cohort: cohort, Separation: separation,
		Participations:  rapid.IntRange(0, 20).Draw(t, "participations"),
		NoiseMultiplier: logUniform(t, "noise", 0.3, 100), Delta: logUniform(t, "delta", 1e-12, 0.1), Sampling: privacy.Separated,
		Mechanism: rapid.SampledFrom([]*correlated.Mechanism{
			nil, {Kind: correlated.KindTree}, {Kind: correlated.KindBanded, Coefficients: bands},
			{Kind: correlated.KindBLT, Scales: []float64{0.1, 0.3}, Decays: []float64{0.99, 0.7}},
		}).Draw(t, "mechanism"),
	}
}

func checkCohort(t *rapid.T, simulation privacy.Recipe, budget privacy.Budget) {
	population := rapid.IntRange(1, 10_000_000).Draw(t, "large population")
	at := func(cohort int) float64 { return proved(t, privacy.ScaleUp(simulation, population, cohort)) }
	cohort, err := privacy.CalibrateCohort(simulation, population, budget)
	switch {
	case err != nil && at(population) <= budget.Epsilon:
		t.Errorf("the whole population costs %v, within %+v: %v", at(population), budget, err)
	case err == nil && (at(cohort) > budget.Epsilon || cohort > 1 && at(cohort-1) <= budget.Epsilon):
		t.Errorf("cohort %d costs %v, one fewer %v; %+v", cohort, at(cohort), at(cohort-1), simulation)
	}
}

// No accountant proves less than the exact epsilon of a Gaussian, whose divergences say more.
func TestSubnormalDeltasHaveValidBounds(t *testing.T) {
	t.Parallel()
	for _, delta := range []float64{math.SmallestNonzeroFloat64, 1e-323, 1e-310, 1e-300} {
		for _, z := range []float64{1e-3, 1, 30, 1e170} {
			r := privacy.Recipe{Population: 10, Cohort: 10, Rounds: 1, NoiseMultiplier: z, Delta: delta, Sampling: privacy.NoSampling}
			exact := privacy.Epsilon(pld.GaussianEpsilon(z/2, delta)) // whose own test has it by mpmath
			report := account(t, r)
			for name, got := range map[string]privacy.Epsilon{"proved": report.EpsilonProved, "by Rényi": report.EpsilonRenyi} {
				if got < exact*(1-1e-9) {
					t.Errorf("z %v, delta %v: %v %s, where the Gaussian has %v", z, delta, got, name, exact)
				}
			}
		}
	}
}

func TestACalibrationOfSeveralEpsilonsFindsTheSameNoise(t *testing.T) {
	t.Parallel()
	for _, sampling := range []privacy.Sampling{privacy.Poisson, privacy.Shuffled} {
		recipe := privacy.Recipe{Population: 1000, Cohort: 50, Rounds: 20, Sampling: sampling}
		c := privacy.NewCalibration(recipe, 1e-5)
		for _, epsilon := range []float64{4, 8, 6, 7, 6.5, 0.01, 1e5, 6.5} {
			want, wantErr := privacy.CalibrateNoise(recipe, privacy.Budget{Epsilon: epsilon, Delta: 1e-5})
			if got, err := c.Noise(epsilon); got != want || (err == nil) != (wantErr == nil) {
				t.Errorf("%s, epsilon %g: noise multiplier %g (%v), want %g (%v)", sampling, epsilon, got, err, want, wantErr)
			}
		}
	}
}
