package privacy_test

import (
	"encoding/csv"
	"encoding/xml"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"coalmine/internal/chart"
	"coalmine/internal/must"
	"coalmine/privacy"
)

func tradeOff(t *testing.T, recipes ...privacy.Recipe) *privacy.TradeOff {
	t.Helper()
	return must.Get(privacy.NewTradeOff(recipes))(t)
}

// Without sampling the curve is that of two normal distributions, 2 sqrt(rounds)/z apart if
// one user replaces another: never above it, and nowhere more than 0.01 below.
func TestTheTradeOffOfTheGaussianMechanismIsKnown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rounds int
		z      float64
	}{{1, 4}, {10, 5}, {100, 200}, {30, 4}} {
		r := sampledBy(privacy.NoSampling)
		r.Rounds, r.NoiseMultiplier = c.rounds, c.z
		curve, mu := tradeOff(t, r), 2*math.Sqrt(float64(c.rounds))/c.z
		for _, p := range curve.Points() {
			exact := 1 - p.FalsePositive
			if p.FalsePositive > 0 && p.FalsePositive < 1 {
				exact = distuv.UnitNormal.CDF(distuv.UnitNormal.Quantile(1-p.FalsePositive) - mu)
			}
			if p.FalseNegative > exact*(1+1e-9) || p.FalseNegative < exact-0.01 {
				t.Errorf("%+v: at %v at least %v, exactly %v", c, p.FalsePositive, p.FalseNegative, exact)
			}
		}
		if got := float64(account(t, r).Concentrated().Mu); math.Abs(got-mu) > 1e-12*mu {
			t.Errorf("%+v: mu %v, want %v", c, got, mu)
		}
	}
}

// A test of one round that compares the sum with a threshold is no better than the curve. The
// table's first point is one without false positives, even if a guarantee exceeds the range of exp.
func TestTradeOffAtZeroFalsePositivesIsBounded(t *testing.T) {
	t.Parallel()
	r := sampledBy(privacy.FixedSize)
	r.Population, r.Cohort, r.Rounds, r.NoiseMultiplier = 3400, 10, 1000, 0.01
	points := tradeOff(t, r).Points()
	if first := points[0].FalseNegative; !(first >= points[1].FalseNegative && first <= 1) {
		t.Errorf("without false positives %v are missed at least, with one in a million %v", first, points[1].FalseNegative)
	}
}

func TestATestOfOneRoundIsWithinTheTradeOff(t *testing.T) {
	t.Parallel()
	r := sampledBy(privacy.Poisson)
	r.Population, r.Cohort, r.Rounds, r.NoiseMultiplier = 1000, 200, 1, 0.7
	curve, noise := tradeOff(t, r), distuv.Normal{Sigma: 0.7}
	for _, place := range []float64{-1, 0, 0.3, 0.5, 1, 2, 3} {
		positive := noise.Survival(place)
		missed := 0.8*noise.CDF(place) + 0.2*noise.CDF(place-1)
		if least := curve.At(positive); missed < least*(1-1e-9) || missed > least+0.05 {
			t.Errorf("false positives %v: %v false negatives, at least %v", positive, missed, least)
		}
	}
}

func TestTradeOffsFallAndCompose(t *testing.T) {
	t.Parallel()
	one, both := tradeOff(t, sampledBy(privacy.FixedSize)), tradeOff(t, sampledBy(privacy.FixedSize), treeOf(10, 8))
	last := 2.
	for i, p := range both.Points() {
		if p.FalseNegative > last || !(p.FalseNegative <= one.Points()[i].FalseNegative) {
			t.Errorf("at %v: %v after %v, of one of both %v", p.FalsePositive, p.FalseNegative, last, one.Points()[i].FalseNegative)
		}
		last = p.FalseNegative
	}
	plain := sampledBy(privacy.FixedSize)
	plain.NoiseMultiplier = 0
	if got := tradeOff(t, plain, treeOf(10, 8)).At(0); got != 0 {
		t.Errorf("without noise every output may be told: false negatives %v at least", got)
	}
	if _, err := privacy.NewTradeOff([]privacy.Recipe{plain, {}}); err == nil {
		t.Error("a recipe without users has a curve")
	}
}

func TestTradeOffsAreWritten(t *testing.T) {
	t.Parallel()
	curve := tradeOff(t, sampledBy(privacy.FixedSize))
	var text, picture strings.Builder
	must.Do(t, curve.WriteCSV(&text))
	rows, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
	if err != nil || len(rows) != len(curve.Points())+1 || !slices.Equal(rows[0], []string{"false_positive", "false_negative_at_least"}) {
		t.Fatalf("%v, %v", rows, err)
	}
	if x, err := strconv.ParseFloat(rows[8][1], 64); err != nil || x != curve.Points()[7].FalseNegative {
		t.Errorf("row %v, want %v", rows[8], curve.Points()[7])
	}
	figure := curve.Figure()
	for _, p := range figure.Series[0].Points {
		if p.Y != curve.At(p.X) {
			t.Errorf("%g stands at %g, want %g", p.Y, p.X, curve.At(p.X))
		}
	}
	picture.Write(figure.SVG(chart.OneColumn))
	for decoder := xml.NewDecoder(strings.NewReader(picture.String())); ; {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, picture.String())
		}
	}
}

// rho adds up, in whatever way cohorts are drawn; a shuffled epoch counts once.
func TestConcentratedPrivacyIgnoresSampling(t *testing.T) {
	t.Parallel()
	for sampling, want := range map[privacy.Sampling]float64{
		privacy.FixedSize: 784 * 2, privacy.Poisson: 784 / 2., privacy.NoSampling: 784 * 2, privacy.Shuffled: 11 * 2,
	} {
		r := account(t, sampledBy(sampling)).Concentrated()
		if float64(r.Rho) != want || math.Abs(float64(r.Mu)-math.Sqrt(2*want)) > 1e-12*want {
			t.Errorf("%s: rho %v, mu %v, want rho %v", sampling, r.Rho, r.Mu, want)
		}
	}
	c := compose(t, 1e-7, sampledBy(privacy.Poisson), treeOf(1, 4))
	if want := 784/2. + 1/32.; math.Abs(float64(c.Rho)-want) > 1e-12*want || c.Neighbouring != privacy.ZeroOutOne {
		t.Errorf("together rho %v, want %v", c.Rho, want)
	}
}

// At the delta found, a training costs no more than the target, and at a slightly smaller delta
// it costs more.
func TestCalibrateDeltaFindsSmallest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		recipes []privacy.Recipe
		epsilon float64
	}{
		{[]privacy.Recipe{sampledBy(privacy.FixedSize)}, 20},
		{[]privacy.Recipe{sampledBy(privacy.Poisson)}, 0.01},
		{[]privacy.Recipe{sampledBy(privacy.Poisson), treeOf(300, 5)}, 4},
		{[]privacy.Recipe{by(privacy.RDP, sampledBy(privacy.FixedSize))}, 30},
		{[]privacy.Recipe{by(privacy.Papers, sampledBy(privacy.FixedSize))}, 5.6},
	} {
		delta, err := privacy.CalibrateDelta(c.recipes, c.epsilon)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		at := func(delta float64) float64 {
			together := compose(t, delta, c.recipes...)
			if c.recipes[0].Accountant == privacy.Papers {
				return float64(together.Epsilon)
			}
			return float64(together.EpsilonProved)
		}
		if at(delta) > c.epsilon || at(delta*(1-2e-3)) <= c.epsilon {
			t.Errorf("%+v: delta %v costs %v, a little less %v", c, delta, at(delta), at(delta*(1-2e-3)))
		}
	}
}

func by(a privacy.Accountant, r privacy.Recipe) privacy.Recipe {
	r.Accountant = a
	return r
}

func TestCalibrateDeltaRejectsBadInput(t *testing.T) {
	t.Parallel()
	plain := sampledBy(privacy.FixedSize)
	plain.NoiseMultiplier = 0
	for want, recipes := range map[string][]privacy.Recipe{
		"epsilon 3 is not reached at any delta": {plain}, "no recipes": nil, "population 0: expected": {{}},
	} {
		if _, err := privacy.CalibrateDelta(recipes, 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := privacy.CalibrateDelta([]privacy.Recipe{sampledBy(privacy.Poisson)}, math.NaN()); err == nil {
		t.Error("an epsilon that is no number was accepted")
	}
	quiet := sampledBy(privacy.Poisson)
	quiet.NoiseMultiplier = 1e9
	if delta, err := privacy.CalibrateDelta([]privacy.Recipe{quiet}, 30); err != nil || delta != 1e-200 {
		t.Errorf("delta %v, %v; want the least", delta, err)
	}
}
