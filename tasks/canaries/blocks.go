package canaries

import (
	"math"

	"coalmine/internal/seeds"
	"coalmine/privacy"
)

// Blocks are orthogonal unit vectors, one for each of Count canaries: the vector of canary i has
// elements of equal size at i, i+Count, i+2 Count, ..., and 0 otherwise. Signs are fair coins, the
// bits of seeds.CanaryBlocks, lowest bit of a number first: a 1 is a plus.
type Blocks struct {
	Seed  uint64
	Count int
}

// Fill sets update to a canary's vector times length. Rounding to float32 never makes it longer.
func (b Blocks) Fill(update []float32, canary int, length float64) {
	clear(update)
	size := math.Nextafter32(float32(length/b.root(canary, len(update))), 0)
	b.each(len(update), func(i int, plus bool) {
		switch {
		case i%b.Count != canary:
		case plus:
			update[i] = size
		default:
			update[i] = -size
		}
	})
}

// Products returns the inner products of a vector with the vectors of all canaries.
func (b Blocks) Products(v []float32) []float64 {
	out := make([]float64, b.Count)
	b.each(len(v), func(i int, plus bool) {
		if plus {
			out[i%b.Count] += float64(v[i])
		} else {
			out[i%b.Count] -= float64(v[i])
		}
	})
	for canary := range out {
		out[canary] /= b.root(canary, len(v))
	}
	return out
}

// root returns the square root of the number of a canary's elements.
func (b Blocks) root(canary, dimension int) float64 {
	return math.Sqrt(float64((dimension - canary + b.Count - 1) / b.Count))
}

func (b Blocks) each(dimension int, element func(i int, plus bool)) {
	source := seeds.Source(b.Seed, seeds.CanaryBlocks)
	word := uint64(0)
	for i := range dimension {
		if i%wordBits == 0 {
			word = source.Uint64()
		}
		element(i, word&1 == 1)
		word >>= 1
	}
}

// Coin reports whether a canary's coin is heads.
func Coin(seed uint64, canary int) bool {
	return seeds.Source(seed, seeds.OneRunCoins, uint64(canary)).Uint64()&1 == 1
}

// Update sets update to the contribution of a canary, of the given length, and reports whether the canary
// contributes. Without coins the contribution is its direction.
func (c *Clients) Update(seed uint64, update []float32, canary int, length float64) bool {
	if c.Coins == "" {
		Directions{seed}.Fill(update, canary, length)
		return true
	}
	heads := Coin(seed, canary)
	if !heads && c.Coins != privacy.ReplaceOne {
		return false
	}
	Blocks{seed, c.Count}.Fill(update, canary, length)
	if !heads {
		for i := range update {
			update[i] = -update[i]
		}
	}
	return true
}

// Evidence turns releases into a score of each canary's coin: the log-likelihood ratio of heads to
// tails for an attacker who knows the sum of all other members, if the canary takes part in a round
// with the cohort's share of the population as its probability. Without noise it is the sum of the
// inner products.
type Evidence struct {
	// Divisor is the divisor of the released sums; Clip is the length of a canary's contribution.
	Divisor         int     `json:"divisor"`
	Clip            float64 `json:"clip"`
	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"`
	// Coins is the relation of heads and tails.
	Coins privacy.Neighbouring `json:"coins"`
	// Known reports whether the attacker knows the members of a round, as the accountant assumes for a
	// sampling without credit.
	Known bool `json:"known,omitempty"`
}

// of returns the evidence of the inner product of a noisy sum with the canary's vector, minus the
// product of the other members.
func (e *Evidence) of(product, rate float64) float64 {
	y := product / e.Clip
	if e.NoiseMultiplier == 0 {
		return y
	}
	likelier := e.ratio(y, rate)
	if e.Coins == privacy.ReplaceOne {
		likelier -= e.ratio(-y, rate)
	}
	return likelier
}

// ratio returns the logarithm of the density at y of a contribution of 1 with probability rate,
// over the density without a contribution.
func (e *Evidence) ratio(y, rate float64) float64 {
	without, with := math.Log1p(-rate), math.Log(rate)+(2*y-1)/(2*e.NoiseMultiplier*e.NoiseMultiplier)
	return max(without, with) + math.Log1p(math.Exp(-math.Abs(with-without)))
}
