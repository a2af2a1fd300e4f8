// Package optimizers turns gradients into updates: the rules that clients apply to their gradients
// and the server to the pseudo-gradient of a round, and the schedules of their learning rates.
//
// A rule works on flat parameter vectors and does its arithmetic in float32, element by element in
// one fixed order. Its state between steps is a list of named vectors ([Optimizer.State], [Restore]), which a
// checkpoint stores with the model.
//
// On the server the gradient is minus the mean of the clients' updates (Reddi
// et al., "Adaptive Federated Optimization", 2021, algorithm 2), so that SGD at
// rate 1 adds the mean update: federated averaging.
package optimizers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/registry"
)

// Optimizer applies gradients to one parameter vector. It is not safe for concurrent use.
type Optimizer interface {
	// Step changes params in place by one step along the gradient of a loss to be minimized. Step
	// panics unless both have the optimizer's length. It does not keep or change grad.
	Step(params, grad []float32, learningRate float64)

	// State returns the optimizer's state, in a fixed order; the vectors share
	// its memory. A rule without state returns nil.
	State() []NamedVector
}

// NamedVector is one vector of an optimizer's state.
type NamedVector struct {
	Name   string
	Values []float32
}

// FlushSubnormals sets the subnormal numbers of the state to zero. Both values give practically the
// same step, but a processor takes a hundred times as long for subnormal numbers, and the squares of
// a dead unit decay to them and stay there.
func FlushSubnormals(o Optimizer) {
	for _, v := range o.State() {
		for i, x := range v.Values {
			if x < minNormal && x > -minNormal {
				v.Values[i] = 0
			}
		}
	}
}

const minNormal float32 = 0x1p-126

// Config chooses a rule. Start from Defaults: zero is a value, not "unset". Parameters of other
// rules are zero.
type Config struct {
	Kind Kind `json:"kind"`
	// Momentum is the kept share of the last velocity, 0 <= m < 1.
	Momentum float64 `json:"momentum,omitempty"`
	// Beta1 is the decay of the mean gradient, 0 <= b < 1.
	Beta1 float64 `json:"beta1,omitempty"`
	// Beta2 is the decay of the mean squared gradient, 0 <= b < 1.
	Beta2 float64 `json:"beta2,omitempty"`
	// Epsilon > 0 is added to the root of the squared gradients; for adadelta, under both roots.
	Epsilon float64 `json:"epsilon,omitempty"`
	// Initial >= 0 is the initial sum or mean of squared gradients.
	Initial float64 `json:"initial,omitempty"`
}

// Defaults returns the parameters that the literature recommends for a kind; the kind's Rule cites
// the source. As server rules Reddi et al. (2021) use beta2 0.99 and epsilon 1e-3 or larger.
func Defaults(kind Kind) (Config, error) {
	rule, err := rules.Find(kind)
	if err != nil {
		return Config{}, err
	}
	c := Config{Kind: kind}
	for _, d := range rule.Parameters {
		*d.in(&c) = d.Value
	}
	return c, nil
}

// Validate reports all errors of the configuration at once.
func (c Config) Validate() error {
	rule, err := rules.Find(c.Kind)
	if err != nil {
		return err
	}
	var problems []error
	for _, p := range parameters {
		value := *p.in(&c)
		switch {
		case !rule.Uses(p.Name) && value != 0:
			problems = append(problems, fmt.Errorf("%s %v: %s does not use it", p.Name, value, c.Kind))
		case rule.Uses(p.Name) && !p.allows(value):
			problems = append(problems, fmt.Errorf("%s %v: want %s", p.Name, value, p.wanted))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("optimizer: %w", err)
	}
	return nil
}

// New returns the configured rule for vectors of n parameters, before its first step.
func New(c Config, n int) (Optimizer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("optimizer for %d parameters: want at least 1", n)
	}
	rule, err := rules.Find(c.Kind)
	if err != nil {
		return nil, err
	}
	return rule.start(c, n), nil
}

func checkSizes(params, grad []float32, want int) {
	if len(params) != want || len(grad) != want {
		panic(fmt.Sprintf("optimizers: %d parameters and a gradient of %d, want %d of each", len(params), len(grad), want))
	}
}

// Restore copies the state of an optimizer with the same configuration and length, by the names of its vectors. If it
// returns an error, it has changed nothing.
func Restore(o Optimizer, from []NamedVector) error {
	into := o.State()
	if len(from) != len(into) {
		return fmt.Errorf("optimizer state has %d vectors, want %d (%s)", len(from), len(into), names(into))
	}
	matches := make([][]float32, len(into))
	for i, want := range into {
		j := slices.IndexFunc(from, func(v NamedVector) bool { return v.Name == want.Name })
		if j < 0 {
			return fmt.Errorf("optimizer state has vectors %s: %q is missing", names(from), want.Name)
		}
		if len(from[j].Values) != len(want.Values) {
			return fmt.Errorf("optimizer state %q has %d elements, want %d", want.Name, len(from[j].Values), len(want.Values))
		}
		matches[i] = from[j].Values
	}
	for i, values := range matches {
		copy(into[i].Values, values)
	}
	return nil
}

func names(vectors []NamedVector) string {
	if len(vectors) == 0 {
		return "none"
	}
	all := lists.Map(vectors, func(v NamedVector) string { return v.Name })
	return strings.Join(all, ", ")
}

// Kind names an update rule.
type Kind string

// The kinds of optimizers. The file of each rule holds its entry.
const (
	SGD      Kind = "sgd"
	Momentum Kind = "momentum"
	Nesterov Kind = "nesterov"
	Adam     Kind = "adam"
	RMSProp  Kind = "rmsprop"
	Adagrad  Kind = "adagrad"
	Yogi     Kind = "yogi"
	Adadelta Kind = "adadelta"
	FedAdam  Kind = "fedadam"
)

var rules = registry.New("optimizer", func(r Rule) Kind { return r.Kind },
	sgdRule, momentumRule, nesterovRule, adamRule, rmspropRule, adagradRule, yogiRule, adadeltaRule, fedAdamRule)

// Rule describes an update rule.
type Rule struct {
	Kind Kind
	// Title is the rule's name in papers' tables.
	Title string
	// Summary describes the rule in one line; Source cites it.
	Summary, Source string
	// PlainStep reports that a step is as long as the gradient times the
	// learning rate, so that one default learning rate suits the rule.
	PlainStep bool
	// Parameters are the rule's parameters with defaults.
	Parameters []Default

	// start returns the rule before its first step, for a valid configuration.
	start func(c Config, n int) Optimizer
}

// Default is a parameter and its default value.
type Default struct {
	Parameter
	Value float64
}

// Uses reports whether the rule has the named parameter.
func (r Rule) Uses(parameter string) bool {
	return slices.ContainsFunc(r.Parameters, func(d Default) bool { return d.Name == parameter })
}

// Rules lists all update rules.
func Rules() []Rule { return rules.Entries() }

// Find returns the rule of a kind.
func Find(kind Kind) (Rule, error) { return rules.Find(kind) }

// Kinds lists the kinds.
func Kinds() []Kind { return rules.Names() }

// Choices lists the kinds for an experiment file.
func (Kind) Choices() []string { return rules.Words() }
