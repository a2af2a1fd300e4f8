package optimizers

import (
	"slices"

	"coalmine/internal/registry"
)

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

// rules holds all update rules.
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
