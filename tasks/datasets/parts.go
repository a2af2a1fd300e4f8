package datasets

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/tasks/datasets/population"
)

// partNumber is a Part's index in Parts.
type partNumber byte

const (
	train partNumber = iota
	test
	validation
	unused // the unused share of the training part; in no stream

	partNumbers = iota
)

func numberOf(p population.Part) partNumber { return partNumber(slices.Index(population.Parts[:], p)) }

// partCoins assigns examples to parts, one after another in order of the source. Each example takes
// one number from every stream regardless of the outcome, so that a larger fraction only adds
// examples to a part: recipes of one seed are paired.
type partCoins struct {
	test, validation, train                *rand.ChaCha8
	testShare, validationShare, trainShare uint64 // in units of 2^-53, rounded up
}

// unit is 2^53.
const unit = 1 << 53

// newPartCoins returns the coins; trainShare 0 uses the whole training part.
func newPartCoins(seed uint64, testShare, validationShare, trainShare float64) *partCoins {
	return &partCoins{
		test:            seeds.Source(seed, seeds.TestPart),
		validation:      seeds.Source(seed, seeds.ValidationPart),
		train:           seeds.Source(seed, seeds.TrainShare),
		testShare:       uint64(math.Ceil(testShare * unit)),
		validationShare: uint64(math.Ceil(validationShare * unit)),
		trainShare:      uint64(math.Ceil(trainShare * unit)),
	}
}

// next draws the part of the next example. The validation part is a share of the examples outside
// the test part.
func (c *partCoins) next() partNumber {
	// This equals rand.Float64() < share: Float64 is the low 53 bits of a Uint64 over 2^53.
	drawn := c.test.Uint64()&(unit-1) < c.testShare
	// The coin for a share of 0 has no effect and its own stream, so skip the draw.
	validated := c.validationShare > 0 && c.validation.Uint64()&(unit-1) < c.validationShare
	leftOut := c.trainShare > 0 && c.train.Uint64()&(unit-1) >= c.trainShare
	switch {
	case drawn:
		return test
	case validated:
		return validation
	case leftOut:
		return unused
	}
	return train
}

// checkTrainShare accepts 0 <= share <= 1.
func checkTrainShare(share float64) error {
	if !(share >= 0 && share <= 1) {
		return fmt.Errorf("share of the training part is %v; expected above 0 and at most 1, or 0 for all of it", share)
	}
	return nil
}
