package privacy_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/rdp"
)

func compose(t *testing.T, delta float64, recipes ...privacy.Recipe) privacy.Composition {
	t.Helper()
	return must.Get(privacy.Compose(recipes, delta))(t)
}

// Several trainings of one recipe cost as much as one training of all their rounds,
// for every sampling.
func TestComposeOfEqualRecipesMatchesTheirRounds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, scheme := range []privacy.Sampling{privacy.FixedSize, privacy.Poisson, privacy.NoSampling} {
		for range 5 {
			recipe := privacy.Recipe{
				Population: 1000 + rng.IntN(100_000), Cohort: 1 + rng.IntN(900), Rounds: 1 + rng.IntN(500),
				NoiseMultiplier: math.Exp(3*rng.Float64() - 1), Delta: 1e-6, Sampling: scheme,
			}
			got := compose(t, 1e-6, recipe, recipe, recipe)
			recipe.Rounds *= 3
			want := account(t, recipe)
			if relative(got.Epsilon, want.Epsilon) > 1e-12 || relative(got.EpsilonRenyi, want.EpsilonRenyi) > 1e-12 || relative(got.EpsilonProved, want.EpsilonProved) > 1e-4 {
				t.Errorf("%+v: epsilon %v, %v proved; of all rounds %v, %v", recipe, got.Epsilon, got.EpsilonProved, want.Epsilon, want.EpsilonProved)
			}
		}
	}
}

func relative(got, want privacy.Epsilon) float64 { return math.Abs(float64(got-want)) / float64(want) }

// Different trainings are added up order by order, by hand here; the papers' convention
// takes whole orders, and noise relative to the clip norm.
func TestComposeAddsDivergencesByOrder(t *testing.T) {
	t.Parallel()
	words := privacy.Recipe{Population: 342_477, Cohort: 5000, Rounds: 2000, NoiseMultiplier: 1, Delta: 2.92e-6}
	images := privacy.Recipe{Population: 250_000, Cohort: 1000, Rounds: 1000, NoiseMultiplier: 1.3, Delta: 0.5} // delta plays no part
	for _, conversion := range []privacy.Conversion{privacy.Classic, privacy.Improved} {
		words.Conversion, images.Conversion = conversion, conversion
		got := compose(t, 1e-7, words, images)
		for name, c := range map[string]struct {
			got    privacy.Epsilon
			orders []float64
			share  float64
		}{"epsilon": {got.Epsilon, rdp.WholeOrders(), 1}, "epsilon_renyi": {got.EpsilonRenyi, rdp.DefaultOrders(), 0.5}} {
			if want := byHand(t, c.orders, c.share, conversion, words, images); relative(c.got, want) > 1e-12 {
				t.Errorf("%s, %s: %v, want %v", name, conversion, c.got, want)
			}
		}
	}
}

// byHand is the epsilon of cohorts of fixed size together at delta 1e-7, with noise of
// so large a share of the noise multiplier.
func byHand(t *testing.T, orders []float64, share float64, conversion privacy.Conversion, recipes ...privacy.Recipe) privacy.Epsilon {
	best := math.Inf(1)
	for _, order := range orders {
		divergence := 0.
		for _, r := range recipes {
			curve := must.Get(rdp.FixedSize(float64(r.Cohort)/float64(r.Population), share*r.NoiseMultiplier, []float64{order}))(t)
			divergence += float64(r.Rounds) * curve.Values()[0]
		}
		epsilon := divergence + math.Log(1e7)/(order-1)
		if conversion == privacy.Improved {
			epsilon = divergence + math.Log(1-1/order) + (math.Log(1e7)-math.Log(order))/(order-1)
		}
		best = min(best, epsilon)
	}
	return privacy.Epsilon(best)
}

// Cohorts of fixed size and shuffled ones are proved under one relation, though at other
// orders.
func TestSamplingsOfOneRelationAreComposed(t *testing.T) {
	t.Parallel()
	fixed, shuffled := tenEpochs(), tenEpochs()
	shuffled.Sampling = privacy.Shuffled
	both := compose(t, 1e-7, fixed, shuffled)
	for _, one := range []privacy.Recipe{fixed, shuffled} {
		if alone := account(t, one); !(both.Epsilon > alone.Epsilon) || !(both.EpsilonProved > alone.EpsilonProved) {
			t.Errorf("epsilon %v, %v proved of both; %v, %v of %s alone", both.Epsilon, both.EpsilonProved, alone.Epsilon, alone.EpsilonProved, one.Sampling)
		}
	}
	if both.Neighbouring != privacy.ReplaceOne || both.Trainings != 2 || both.Unit != "balanced user" || both.Delta != 1e-7 {
		t.Errorf("composition %+v", both)
	}
}

func TestComposeWithoutNoiseIsInfinite(t *testing.T) {
	t.Parallel()
	plain := tenEpochs()
	plain.NoiseMultiplier = 0
	if c := compose(t, 1e-7, tenEpochs(), plain); !c.Infinite || !math.IsInf(float64(c.Epsilon), 1) || c.OrderProved != 0 {
		t.Errorf("composition %+v, want no bound", c)
	}
}

func TestComposeRejectsDifferentGuarantees(t *testing.T) {
	t.Parallel()
	record, improved, wrong, renyi := tenEpochs(), tenEpochs(), tenEpochs(), tenEpochs()
	renyi.Accountant = privacy.RDP
	record.Unit, improved.Conversion, wrong.Cohort = privacy.RecordUnit, privacy.Improved, 0
	for want, recipes := range map[string][]privacy.Recipe{
		"guarantees of a balanced user and of a record cannot be composed": {tenEpochs(), record},
		"the conversions classic and improved cannot be composed":          {tenEpochs(), improved},
		"cohort 0: expected at least 1 user":                               {tenEpochs(), wrong},
		"the accountants tightest and rdp cannot be composed":              {tenEpochs(), renyi},
		"no recipes to compose":                                            nil,
	} {
		if _, err := privacy.Compose(recipes, 1e-7); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, delta := range []float64{0, 1, -1, math.NaN()} {
		if _, err := privacy.Compose([]privacy.Recipe{tenEpochs()}, delta); err == nil || !strings.Contains(err.Error(), "delta") {
			t.Errorf("delta %v: error %v", delta, err)
		}
	}
}
