// Package optimizers turns gradients into updates: the rules that clients apply
// to their gradients and the server to the pseudo-gradient of a round, and the
// schedules of their learning rates.
//
// A rule works on flat parameter vectors and does its arithmetic in float32,
// element by element in one fixed order. What it remembers between steps is
// named vectors (State, Restore), which a checkpoint stores beside the model.
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
)

// Optimizer applies gradients to one parameter vector. It is not safe for
// concurrent use.
type Optimizer interface {
	// Step changes params in place by one step along the gradient of a loss to
	// be minimized. Both have the length the optimizer was made for; any other
	// is a mistake in the program and panics. It does not keep or change grad.
	Step(params, grad []float32, learningRate float64)

	// State returns what the optimizer remembers, in a fixed order; the vectors
	// share its memory. A rule without memory returns nil.
	State() []NamedVector

	// Restore copies the state of an optimizer of the same configuration and
	// length, or returns an error and changes nothing.
	Restore(state []NamedVector) error
}

// NamedVector is one vector of an optimizer's state.
type NamedVector struct {
	Name   string
	Values []float32
}

// Kinds of optimizers.
const (
	SGD      = "sgd"
	Momentum = "momentum"
	Nesterov = "nesterov"
	Adam     = "adam"
	RMSProp  = "rmsprop"
	Adagrad  = "adagrad"
	Yogi     = "yogi"
)

// Kinds lists the kinds.
func Kinds() []string { return []string{SGD, Momentum, Nesterov, Adam, RMSProp, Adagrad, Yogi} }

// Config chooses a rule. Start from Defaults: zero is a value, not "unset".
// A rule ignores the fields it does not use.
type Config struct {
	Kind string `json:"kind"`
	// Momentum is the share of the last velocity that is kept, 0 <= m < 1, of
	// momentum and nesterov.
	Momentum float64 `json:"momentum,omitempty"`
	// Beta1 is the decay of the mean gradient, 0 <= b < 1, of adam and yogi.
	Beta1 float64 `json:"beta1,omitempty"`
	// Beta2 is the decay of the mean squared gradient, 0 <= b < 1, of adam,
	// yogi and rmsprop.
	Beta2 float64 `json:"beta2,omitempty"`
	// Epsilon > 0 is added to the root of the squared gradients, of the
	// adaptive rules.
	Epsilon float64 `json:"epsilon,omitempty"`
	// Initial >= 0 is what the sum or mean of squared gradients starts from, of
	// adagrad and yogi.
	Initial float64 `json:"initial,omitempty"`
}

// Defaults returns the hyperparameters that the literature recommends:
//
//	momentum  0.9                                      Sutskever et al. 2013
//	nesterov  0.9                                      Sutskever et al. 2013
//	adam      beta1 0.9, beta2 0.999, epsilon 1e-8     Kingma and Ba 2015, algorithm 1
//	rmsprop   beta2 0.9, epsilon 1e-8                  Hinton 2012, lecture 6e
//	adagrad   epsilon 1e-10, initial 0                 Duchi et al. 2011
//	yogi      beta1 0.9, beta2 0.999, epsilon 1e-3     Zaheer et al. 2018, section 5
//	          initial 1e-6                             TensorFlow Addons
//
// As server rules Reddi et al. (2021) use beta2 0.99 and epsilon 1e-3 or larger.
func Defaults(kind string) (Config, error) {
	switch kind {
	case SGD:
		return Config{Kind: kind}, nil
	case Momentum, Nesterov:
		return Config{Kind: kind, Momentum: 0.9}, nil
	case Adam:
		return Config{Kind: kind, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}, nil
	case RMSProp:
		return Config{Kind: kind, Beta2: 0.9, Epsilon: 1e-8}, nil
	case Adagrad:
		return Config{Kind: kind, Epsilon: 1e-10}, nil
	case Yogi:
		return Config{Kind: kind, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-3, Initial: 1e-6}, nil
	}
	return Config{}, unknownKind(kind)
}

// Validate reports everything that is wrong with the configuration, in one error.
func (c Config) Validate() error {
	var problems []error
	if !slices.Contains(Kinds(), c.Kind) {
		problems = append(problems, unknownKind(c.Kind))
	}
	decay := func(name string, value float64) {
		if !(value >= 0 && float32(value) < 1) { // the steps are taken in float32
			problems = append(problems, fmt.Errorf("%s %v: want at least 0 and below 1", name, value))
		}
	}
	switch c.Kind {
	case Momentum, Nesterov:
		decay("momentum", c.Momentum)
	case Adam, Yogi:
		decay("beta1", c.Beta1)
		decay("beta2", c.Beta2)
	case RMSProp:
		decay("beta2", c.Beta2)
	}
	if c.adaptive() && !(c.Epsilon >= minEpsilon && c.Epsilon <= 1e6) {
		problems = append(problems, fmt.Errorf("epsilon %v: want %v to 1e6", c.Epsilon, minEpsilon))
	}
	if c.adaptive() && !(c.Initial >= 0 && c.Initial <= 1e6) {
		problems = append(problems, fmt.Errorf("initial %v: want 0 to 1e6", c.Initial))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("optimizer: %w", err)
	}
	return nil
}

// minEpsilon is the smallest epsilon that float32 holds with full precision.
const minEpsilon = 1e-30

func (c Config) adaptive() bool {
	return slices.Contains([]string{Adam, RMSProp, Adagrad, Yogi}, c.Kind)
}

func unknownKind(kind string) error {
	return fmt.Errorf("kind %q: want one of %s", kind, strings.Join(Kinds(), ", "))
}

// New returns the configured rule for vectors of n parameters, at its first step.
func New(c Config, n int) (Optimizer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("optimizer for %d parameters: want at least 1", n)
	}
	switch c.Kind {
	case SGD:
		return &sgd{size: n}, nil
	case Momentum, Nesterov:
		return &momentum{decay: float32(c.Momentum), nesterov: c.Kind == Nesterov, velocity: make([]float32, n)}, nil
	case RMSProp, Adagrad:
		return newScaled(c, n), nil
	default:
		return newMoments(c, n), nil
	}
}

func checkSizes(params, grad []float32, want int) {
	if len(params) != want || len(grad) != want {
		panic(fmt.Sprintf("optimizers: %d parameters and a gradient of %d, want %d of each", len(params), len(grad), want))
	}
}

// restore copies vectors by name, once all of them are seen to fit.
func restore(into, from []NamedVector) error {
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
	all := make([]string, len(vectors))
	for i, v := range vectors {
		all[i] = v.Name
	}
	return strings.Join(all, ", ")
}
