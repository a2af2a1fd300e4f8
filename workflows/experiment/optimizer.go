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
	// Schedule changes the learning rate over the rounds (sgd: steps). Absent: it
	// stays.
	Schedule *Schedule `json:"schedule,omitempty" also:"learning_rate_schedule decay warmup"`
}

// Schedule is how a learning rate changes: a warm-up, then the course of its kind.
type Schedule struct {
	// Kind of course after the warm-up: constant stays, step falls by a factor
	// every so often, cosine falls along half a cosine until the last round.
	Kind string `json:"kind" default:"constant" oneof:"constant step cosine"`
	// WarmUp is the number of first rounds over which the rate rises linearly, the
	// last of them having all of it.
	WarmUp int `json:"warm_up,omitzero" default:"0" range:"[0,1000000000]" unit:"rounds (sgd: steps)" also:"warmup"`
	// Every so many rounds after the warm-up the rate is multiplied by factor.
	Every int `json:"every,omitzero" range:"[1,1000000000]" when:"kind=step" unit:"rounds (sgd: steps)"`
	// Factor by which the rate falls.
	Factor float64 `json:"factor,omitzero" range:"(0,1]" when:"kind=step" also:"gamma"`
	// Floor is the share of the full rate that the cosine ends at. With a cosine
	// more rounds are another training, not its continuation.
	Floor float64 `json:"floor,omitzero" default:"0" range:"[0,1]" when:"kind=cosine" source:"Loshchilov and Hutter 2017, equation 5"`
}

// Config is the schedule of a training of so many rounds (sgd: steps); nil where
// the rate never changes.
func (s *Schedule) Config(rounds int) *optimizers.Schedule {
	if s == nil || s.Kind == optimizers.Constant && s.WarmUp == 0 {
		return nil
	}
	out := &optimizers.Schedule{Kind: s.Kind, WarmUp: s.WarmUp, Every: s.Every, Factor: s.Factor, Floor: s.Floor}
	if out.NeedsLength() {
		out.Steps = rounds
	}
	return out
}

// check says what is wrong with the schedule of a training of so many rounds.
func (s *Schedule) check(rounds int) error {
	config := s.Config(rounds)
	if config == nil {
		return nil
	}
	return config.Validate()
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
