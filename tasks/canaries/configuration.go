package canaries

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"

	"coalmine/internal/readable"
	"coalmine/tasks/datasets/population"
)

// Configuration is the frequency of a canary: two probabilities, or a chosen number of insertions.
type Configuration struct {
	// UserProbability and ExampleProbability are exact fractions in lowest terms, such as "1/5000"
	// or "1", above 0 and at most 1; empty if Times is set.
	UserProbability    string `json:"user_probability,omitempty"`
	ExampleProbability string `json:"example_probability,omitempty"`
	// Times is the number of examples that become the canary, at least 1; 0 if the probabilities
	// are set.
	Times int `json:"times,omitempty"`
}

// ConfigurationOf returns the configuration of a canary that is not held back.
func ConfigurationOf(c *population.Canary) Configuration {
	return Configuration{c.UserProbability, c.ExampleProbability, c.InsertedTimes}
}

func (c Configuration) set(canary *population.Canary) {
	canary.UserProbability, canary.ExampleProbability, canary.InsertedTimes = c.UserProbability, c.ExampleProbability, c.Times
}

// String returns "1/5000, 1" or "4 times".
func (c Configuration) String() string {
	if c.Times > 0 {
		return readable.Count(c.Times, "time")
	}
	return c.UserProbability + ", " + c.ExampleProbability
}

// fraction matches the text of a probability. Limiting the length bounds the cost of parsing.
var fraction = regexp.MustCompile(`^[0-9]{1,18}(/[0-9]{1,18})?$`)

// Check returns an error if neither or both are set, or if a probability is not a fraction in
// lowest terms above 0 and at most 1.
func (c Configuration) Check() error {
	if c.Times == 0 {
		_, _, err := c.parse()
		return err
	}
	if c.Times < 0 || c.UserProbability != "" || c.ExampleProbability != "" {
		return fmt.Errorf("a canary is inserted %d times and by the probabilities %q, %q; expected a number of times above 0, or probabilities", c.Times, c.UserProbability, c.ExampleProbability)
	}
	return nil
}

// Probabilities returns p_u and p_e, both 0 if Times is set. It returns the errors of Check.
func (c Configuration) Probabilities() (user, example float64, err error) {
	if c.Times > 0 {
		return 0, 0, c.Check()
	}
	pu, pe, err := c.parse()
	if err != nil {
		return 0, 0, err
	}
	user, _ = pu.Float64()
	example, _ = pe.Float64()
	return user, example, nil
}

func (c Configuration) parse() (user, example *big.Rat, err error) {
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

// Compare orders configurations, as "lowest" in the paper's Table 1, by expected insertion
// frequency p_u x p_e, then by expected users p_u; chosen numbers of insertions by number. Both
// must be valid.
func (c Configuration) Compare(other Configuration) int {
	cu, ce, errC := c.parse()
	ou, oe, errO := other.parse()
	if errC != nil || errO != nil {
		return cmp.Or(cmp.Compare(c.Times, other.Times), cmp.Compare(c.UserProbability, other.UserProbability), cmp.Compare(c.ExampleProbability, other.ExampleProbability))
	}
	product := func(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
	return cmp.Or(product(cu, ce).Cmp(product(ou, oe)), cu.Cmp(ou))
}
