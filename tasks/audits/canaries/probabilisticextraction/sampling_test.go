package probabilisticextraction

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/models"
)

// near says whether two numbers agree to a relative 1e-12, or to 1e-12 near 0.
func near(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-12*max(1, math.Abs(a)) }

func by(temperature float64, topK int) models.Sampling {
	return models.Sampling{Temperature: temperature, TopK: topK}
}

func normalised(logits []float64) []float32 {
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(l)
	}
	out := make([]float32, len(logits))
	for i, l := range logits {
		out[i] = float32(l - math.Log(sum))
	}
	return out
}

// The probabilities of all tokens sum to 1, and are those of the definition: exp(l/T) over
// its sum, here over the tokens kept.
func TestATokenIsDrawnByItsShareOfThoseKept(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	for range 50 {
		logits := make([]float64, 30)
		for i := range logits {
			logits[i] = 6 * rng.NormFloat64()
		}
		row := normalised(logits)
		for _, s := range []models.Sampling{by(1, 0), by(0.5, 0), by(2.5, 7), by(1, 1), by(1, 29), by(0.01, 30), by(1, 1000)} {
			kept := make([]int, len(row))
			for i := range kept {
				kept[i] = i
			}
			slices.SortStableFunc(kept, func(a, b int) int { return int(math.Copysign(1, float64(row[b]-row[a]))) })
			if s.TopK > 0 {
				kept = kept[:min(s.TopK, len(kept))]
			}
			sum, total := 0.0, 0.0
			for _, i := range kept {
				sum += math.Exp((float64(row[i]) - float64(row[kept[0]])) / s.Temperature)
			}
			for i := range row {
				got, want := logProbDrawn(s, row, int32(i)), math.Inf(-1)
				if slices.Contains(kept, i) {
					want = (float64(row[i])-float64(row[kept[0]]))/s.Temperature - math.Log(sum)
				}
				if s == by(1, 0) {
					want = float64(row[i]) // already normalised, in float32
				}
				if !near(got, want) {
					t.Errorf("%+v: token %d has %v, by definition %v", s, i, got, want)
				}
				total += math.Exp(got)
			}
			if math.Abs(total-1) > 1e-5 {
				t.Errorf("%+v: the probabilities sum to %v", s, total)
			}
		}
	}
}

func TestOfEqualTokensTheLowerAreKept(t *testing.T) {
	t.Parallel()
	row := normalised([]float64{0, 2, 2, 2, 1})
	for token, want := range []float64{math.Inf(-1), -math.Ln2, -math.Ln2, math.Inf(-1), math.Inf(-1)} {
		if got := logProbDrawn(by(3, 2), row, int32(token)); !near(got, want) && !math.IsInf(want, -1) || math.IsInf(want, -1) != math.IsInf(got, -1) {
			t.Errorf("token %d has %v, want %v", token, got, want)
		}
	}
}

// chanceOf is the chance that one of n samples is a sequence of probability p.
func chanceOf(n, p float64) float64 { return -math.Expm1(n * math.Log1p(-p)) }

func TestQueriesAreTheFewestThatHaveTheChance(t *testing.T) {
	t.Parallel()
	for _, p := range []float64{0.9, 0.5, 0.3, 0.25, 0.1, 1e-3, 1.0 / 3, 0.999} {
		for _, chance := range []float64{0.001, 0.1, 0.5, 0.75, 0.9, 0.99, 0.999999} {
			n := Queries(math.Log(p), chance)
			if n < 1 || n != math.Trunc(n) || chanceOf(n, p) < chance*(1-1e-12) || n > 1 && chanceOf(n-1, p) >= chance*(1+1e-12) {
				t.Errorf("p %v, chance %v: %v samples have a chance of %v, one less of %v", p, chance, n, chanceOf(n, p), chanceOf(n-1, p))
			}
		}
	}
}

// Values of mpmath with 50 digits: ceil(log(1-chance)/log(1-p)), rounded to float64.
func TestQueriesAreRightForSmallProbabilities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ logP, chance, want float64 }{
		{0, 0.5, 1}, {-1e-300, 0.999, 1}, {math.Log(0.5), 0.5, 1}, {math.Log(0.5), 0.75, 2},
		{-30, 0.5, 7407299726309}, {-690.77552789821370521, 0.5, 6.9314718055992888519e299},
		{-690.77552789821370521, 0.999, 6.9077552789819724835e300}, {-708, 0.9, 6.9615969584195110466e307}, {-709, 0.9, math.Inf(1)},
		{math.Inf(-1), 0.1, math.Inf(1)}, {-750, 0.5, math.Inf(1)}, {-1e6, 0.5, math.Inf(1)},
	} {
		if got := Queries(c.logP, c.chance); got != c.want && !(math.Abs(got-c.want) <= 2e-13*c.want) {
			t.Errorf("log p %v, chance %v: %v, want %v", c.logP, c.chance, got, c.want)
		}
	}
}
