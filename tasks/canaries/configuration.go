package canaries

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
)

// Configuration says how often a canary is inserted. Both probabilities are
// exact fractions in lowest terms, such as "1/5000" or "1", above 0 and at most 1.
type Configuration struct {
	UserProbability    string `json:"user_probability"`
	ExampleProbability string `json:"example_probability"`
}

// fraction is the text of a probability. Its length bounds what it costs to read.
var fraction = regexp.MustCompile(`^[0-9]{1,18}(/[0-9]{1,18})?$`)

// Parse returns p_u and p_e. An error names the probability that is no fraction
// in lowest terms above 0 and at most 1.
func (c Configuration) Parse() (user, example *big.Rat, err error) {
	if user, err = parseProbability("user probability", c.UserProbability); err != nil {
		return nil, nil, err
	}
	example, err = parseProbability("example probability", c.ExampleProbability)
	return user, example, err
}

func parseProbability(name, text string) (*big.Rat, error) {
	bad := fmt.Errorf(`%s %.50q: expected a fraction in lowest terms above 0 and at most 1, such as "1/5000" or "1"`, name, text)
	if !fraction.MatchString(text) {
		return nil, bad
	}
	p, ok := new(big.Rat).SetString(text)
	if !ok || p.Sign() <= 0 || p.Cmp(big.NewRat(1, 1)) > 0 || p.RatString() != text {
		return nil, bad
	}
	return p, nil
}

// Compare orders configurations as "lowest" is meant in the paper's Table 1: by
// expected insertion frequency p_u x p_e, then by expected users p_u. Both must
// have been parsed without error before.
func (c Configuration) Compare(other Configuration) int {
	cu, ce, errC := c.Parse()
	ou, oe, errO := other.Parse()
	if errC != nil || errO != nil {
		return cmp.Or(cmp.Compare(c.UserProbability, other.UserProbability), cmp.Compare(c.ExampleProbability, other.ExampleProbability))
	}
	product := func(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
	return cmp.Or(product(cu, ce).Cmp(product(ou, oe)), cu.Cmp(ou))
}
