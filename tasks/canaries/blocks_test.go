package canaries

import (
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/privacy"
)

func TestBlocksAreOrthogonalUnitVectors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dimension, count int }{{1, 1}, {7, 7}, {64, 5}, {65, 8}, {1000, 37}} {
		b := Blocks{3, c.count}
		vectors := make([][]float32, c.count)
		for i := range vectors {
			vectors[i] = make([]float32, c.dimension)
			b.Fill(vectors[i], i, 2)
		}
		for i, v := range vectors {
			for j, product := range b.Products(v) {
				if i != j && product != 0 || i == j && (product > 2 || product < 2*(1-3e-7)) {
					t.Errorf("%+v: the product of vectors %d and %d is %v", c, i, j, product)
				}
			}
		}
	}
}

func TestProductsMatchUpdates(t *testing.T) {
	t.Parallel()
	rng, b := rand.New(rand.NewPCG(1, 2)), Blocks{7, 13}
	v, update := make([]float32, 301), make([]float32, 301)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	for i, got := range b.Products(v) {
		b.Fill(update, i, 1)
		want := 0.0
		for j := range v {
			want += float64(v[j]) * float64(update[j])
		}
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("canary %d: %v, want %v", i, got, want)
		}
	}
}

// Of 1000 coins fewer than 421 or more than 579 are heads with a probability below 1e-6. The seed is fixed.
func TestCoinsDecideSentUpdates(t *testing.T) {
	t.Parallel()
	heads, update, vector := 0, make([]float32, 50), make([]float32, 50)
	for canary := range 1000 {
		coin := Coin(9, canary)
		if coin {
			heads++
		}
		for _, relation := range []privacy.Neighbouring{privacy.ReplaceOne, privacy.AddOrRemoveOne, privacy.ZeroOutOne} {
			c := Clients{Count: 1000, Coins: relation}
			sent := c.Update(9, update, canary%50, 3)
			Blocks{9, 1000}.Fill(vector, canary%50, 3)
			if coin = Coin(9, canary%50); sent != (coin || relation == privacy.ReplaceOne) {
				t.Fatalf("canary %d, %s, heads %v: sent %v", canary, relation, coin, sent)
			}
			for i := range update {
				if want := vector[i]; sent && update[i] != want && update[i] != -want || sent && (update[i] == want) != (coin || want == 0) {
					t.Fatalf("canary %d, %s, heads %v: element %d is %v, of the vector %v", canary, relation, coin, i, update[i], want)
				}
			}
		}
	}
	if heads < 421 || heads > 579 {
		t.Errorf("%d of 1000 coins are heads", heads)
	}
}

// The evidence is the logarithm of two densities' ratio.
func TestEvidenceIsALikelihoodRatio(t *testing.T) {
	t.Parallel()
	for _, z := range []float64{0.3, 1, 5} {
		for _, rate := range []float64{0.01, 0.3, 1} {
			normal := func(y float64) float64 { return math.Exp(-y * y / (2 * z * z)) }
			mixed := func(y, at float64) float64 { return (1-rate)*normal(y) + rate*normal(y-at) }
			for y := -2.0; y < 3; y += 0.25 {
				for relation, tails := range map[privacy.Neighbouring]float64{privacy.AddOrRemoveOne: normal(y), privacy.ReplaceOne: mixed(y, -1)} {
					e := Evidence{Divisor: 10, Clip: 4, NoiseMultiplier: z, Coins: relation}
					want := math.Log(mixed(y, 1) / tails)
					if got := e.of(4*y, rate); math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
						t.Errorf("z %v, rate %v, %s at %v: %v, want %v", z, rate, relation, y, got, want)
					}
				}
			}
		}
	}
	if got := (&Evidence{Clip: 4, Coins: privacy.AddOrRemoveOne}).of(6, 0.1); got != 1.5 {
		t.Errorf("without noise: %v, want 1.5", got)
	}
}
