package datasets

import (
	"fmt"
	"math"
	"math/rand/v2"

	"coalmine/internal/seeds"
)

// partNumber is a Part's index in allParts.
type partNumber byte

const (
	train partNumber = iota
	test
	validation
	unused // the unused share of the training part; in no stream

	partNumbers = iota
)

var allParts = [...]Part{train: Train, test: Test, validation: Validation}

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

// checkFraction accepts 0 <= f < 1.
func checkFraction(name string, f float64) error {
	if !(f >= 0 && f < 1) {
		return fmt.Errorf("%s is %v; expected at least 0 and less than 1", name, f)
	}
	return nil
}

// checkTrainShare accepts 0 <= share <= 1.
func checkTrainShare(share float64) error {
	if !(share >= 0 && share <= 1) {
		return fmt.Errorf("share of the training part is %v; expected above 0 and at most 1, or 0 for all of it", share)
	}
	return nil
}

// heldOut draws which of n balanced users are held out: fraction x n of them, rounded to the
// nearest, all sets of that size equally likely.
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

// NothingToPredict is the error of a part without ordinary words or labels, with advice: more
// examples if it has none, otherwise words that are in the vocabulary.
func NothingToPredict(part Part, examples bool) error {
	if !examples {
		return fmt.Errorf("the %s part has nothing to predict: raise data.%s.fraction, or name a split with examples by data.%s.split", part, part, part)
	}
	return fmt.Errorf("the %s part has words, but none of them is in the vocabulary: raise data.vocabulary.size, or take for the %s part texts whose words the training part has, too",
		part, part)
}
