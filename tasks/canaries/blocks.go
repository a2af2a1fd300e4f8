package canaries

import (
	"math"

	"coalmine/internal/seeds"
	"coalmine/privacy"
)

// Blocks are orthogonal unit vectors, one for each of Count canaries: that of canary i has the elements i,
// i+Count, i+2 Count, ..., all of one size, and 0 elsewhere. The signs of elements are fair coins, the bits of
// seeds.CanaryBlocks from the lowest of a number to the highest: a 1 is a plus.
type Blocks struct {
	Seed  uint64
	Count int
}

// Fill makes an update along a canary's vector, of a length. Rounded to float32 it is never longer.
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

// Products returns the inner products of a vector with those of all canaries.
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

// root is that of the number of a canary's elements.
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

// Update makes the contribution of a canary, of the given length; false: it sends
// nothing. Without coins that is its direction.
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

// Evidence turns releases into a score of each canary's coin: the logarithm of how much likelier they are
// with heads than with tails, to an attacker who knows the sum of all others, if the canary takes part in a
// round with the probability of its share of the population. Without noise it is the sum of the inner products.
type Evidence struct {
	// Divisor is that of the released sums; Clip is the length of a canary's contribution.
	Divisor         int     `json:"divisor"`
	Clip            float64 `json:"clip"`
	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"`
	// Coins is the relation of heads and tails.
	Coins privacy.Neighbouring `json:"coins"`
	// Known says that the attacker knows who takes part in a round, as the accountant assumes of a sampling that
	// it gives no credit for.
	Known bool `json:"known,omitempty"`
}

// of is the evidence of the inner product of a noised sum, less that of the others, with the canary's vector.
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

// ratio is the logarithm of the density at y of a contribution of 1 with a probability, over that of none.
func (e *Evidence) ratio(y, rate float64) float64 {
	without, with := math.Log1p(-rate), math.Log(rate)+(2*y-1)/(2*e.NoiseMultiplier*e.NoiseMultiplier)
	return max(without, with) + math.Log1p(math.Exp(-math.Abs(with-without)))
}
