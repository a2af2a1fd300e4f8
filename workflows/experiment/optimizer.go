package experiment

import (
	"slices"

	"coalmine/models/optimizers"
)

// Optimizer names an update rule and its parameters.
type Optimizer struct {
	// Name is the update rule.
	Name string `json:"optimizer" default:"sgd" oneof:"sgd momentum nesterov adam rmsprop adagrad yogi" also:"name kind"`
	// LearningRate of the rule. With sgd, momentum and nesterov it is by default 0.5 for
	// clients (Augenstein et al. 2020, appendix B.2), 1 for the server, and 0.005
	// for central training (Thakkar et al. 2020, section 4.2); the other update
	// rules need it stated.
	LearningRate float64 `json:"learning_rate" range:"(0,1e6]" also:"lr rate"`
	// Momentum coefficient, by default 0.9.
	Momentum *float64 `json:"momentum,omitempty" range:"[0,1)" when:"optimizer=momentum nesterov" source:"Thakkar et al. 2020, appendix B"`
	// Beta1 is the decay of the mean gradient, by default 0.9.
	Beta1 *float64 `json:"beta1,omitempty" range:"[0,1)" when:"optimizer=adam yogi"`
	// Beta2 is the decay of the mean squared gradient, by default 0.999, with
	// rmsprop 0.9.
	Beta2 *float64 `json:"beta2,omitempty" range:"[0,1)" when:"optimizer=adam yogi rmsprop"`
	// Epsilon is added to the denominator, by default 1e-8, with yogi 1e-3,
	// with adagrad 1e-10.
	Epsilon *float64 `json:"epsilon,omitempty" range:"[1e-30,1e6]" when:"optimizer=adam yogi rmsprop adagrad"`
}

// plainGradient holds the update rules whose step is as large as the gradient,
// so that one default learning rate suits them.
var plainGradient = []string{optimizers.SGD, optimizers.Momentum, optimizers.Nesterov}

// Config is the update rule with its parameters. It is complete for the
// optimizers of a resolved experiment.
func (o *Optimizer) Config() optimizers.Config {
	// An unknown name is a mistake that Parse reports; it has no parameters.
	config, _ := optimizers.Defaults(o.Name)
	for _, p := range []struct{ given, value *float64 }{
		{o.Momentum, &config.Momentum},
		{o.Beta1, &config.Beta1},
		{o.Beta2, &config.Beta2},
		{o.Epsilon, &config.Epsilon},
	} {
		if p.given != nil {
			*p.value = *p.given
		}
	}
	return config
}

// complete fills in the parameters that the update rule uses. learningRate is
// the default for rules whose step is as large as the gradient; where no
// default suits the rule, the learning rate stays 0.
func (o *Optimizer) complete(learningRate float64) {
	if o.LearningRate == 0 && slices.Contains(plainGradient, o.Name) {
		o.LearningRate = learningRate
	}
	config := o.Config()
	for _, p := range []struct {
		field **float64
		value float64
		uses  bool
	}{
		{&o.Momentum, config.Momentum, o.Name == optimizers.Momentum || o.Name == optimizers.Nesterov},
		{&o.Beta1, config.Beta1, o.Name == optimizers.Adam || o.Name == optimizers.Yogi},
		{&o.Beta2, config.Beta2, o.Name == optimizers.Adam || o.Name == optimizers.Yogi || o.Name == optimizers.RMSProp},
		{&o.Epsilon, config.Epsilon, config.Epsilon > 0},
	} {
		if p.uses {
			*p.field = &p.value
		}
	}
}
