package datasets

import (
	"fmt"
	"math"
	"math/rand/v2"

	"coalmine/internal/seeds"
)

// partNumber is a Part's place in allParts.
type partNumber byte

const (
	train partNumber = iota
	test
	validation
)

var allParts = [...]Part{train: Train, test: Test, validation: Validation}

// partCoins assigns examples to parts, one after another in order of the source.
// Each example takes one number from both streams whatever the outcome, so that
// a larger fraction only adds examples to a part: recipes of one seed are paired.
type partCoins struct {
	test, validation           *rand.ChaCha8
	testShare, validationShare uint64 // in units of 2^-53, rounded up
}

// unit is 2^53.
const unit = 1 << 53

func newPartCoins(seed uint64, testShare, validationShare float64) *partCoins {
	return &partCoins{
		test:            seeds.Source(seed, seeds.TestPart),
		validation:      seeds.Source(seed, seeds.ValidationPart),
		testShare:       uint64(math.Ceil(testShare * unit)),
		validationShare: uint64(math.Ceil(validationShare * unit)),
	}
}

// next is the part of the next example. The validation part is a share of what
// the test part leaves.
func (c *partCoins) next() partNumber {
	// rand.Float64 is the low 53 bits of a Uint64 as a share of 2^53.
	drawn := c.test.Uint64()&(unit-1) < c.testShare
	// A coin of no share decides nothing, and nothing else is drawn from its stream.
	validated := c.validationShare > 0 && c.validation.Uint64()&(unit-1) < c.validationShare
	switch {
	case drawn:
		return test
	case validated:
		return validation
	}
	return train
}

// checkFraction accepts 0 <= f < 1.
func checkFraction(name string, f float64) error {
	if !(f >= 0 && f < 1) {
		return fmt.Errorf("%s is %v; expected at least 0 and less than 1", name, f)
	}
	return nil
}

// heldOut draws which of n balanced users are held out: fraction x n of them,
// rounded to the nearest, each set of that size equally likely.
func heldOut(seed uint64, n int, fraction float64) []bool {
	out := make([]bool, n)
	if fraction == 0 {
		return out
	}
	for _, u := range seeds.Stream(seed, seeds.HeldOutUsers).Perm(n)[:int(fraction*float64(n)+0.5)] {
		out[u] = true
	}
	return out
}
