package optimizers

import (
	"slices"

	"coalmine/internal/registry"
)

// Kind names an update rule.
type Kind string

// Kinds of optimizers. The file of each rule holds its entry.
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

// rules are all update rules there are.
var rules = registry.New("optimizer", func(r Rule) Kind { return r.Kind },
	sgdRule, momentumRule, nesterovRule, adamRule, rmspropRule, adagradRule, yogiRule, adadeltaRule, fedAdamRule)

// Rule describes an update rule: all that the rest of the project knows of it.
type Rule struct {
	Kind Kind
	// Title is how tables of papers spell it.
	Title string
	// Summary says in one line what the rule does, Source where it stands.
	Summary, Source string
	// PlainStep says that a step is as long as the gradient times the learning
	// rate, so that one default learning rate suits the rule.
	PlainStep bool
	// Parameters are those that the rule uses, with their defaults.
	Parameters []Default

	// start returns the rule at its first step; the configuration is valid.
	start func(c Config, n int) Optimizer
}

// Default is a parameter with the value that it has unless another is given.
type Default struct {
	Parameter
	Value float64
}

// Uses reports whether the rule has the parameter of that name.
func (r Rule) Uses(parameter string) bool {
	return slices.ContainsFunc(r.Parameters, func(d Default) bool { return d.Name == parameter })
}

// Rules lists all update rules.
func Rules() []Rule { return rules.Entries() }

// Find returns the rule of a kind.
func Find(kind Kind) (Rule, error) { return rules.Find(kind) }

// Kinds lists the kinds.
func Kinds() []Kind { return rules.Names() }

// Choices lists the kinds as words of an experiment file.
func (Kind) Choices() []string { return rules.Words() }
