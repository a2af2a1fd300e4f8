package experiment

import "coalmine/models/optimizers"

// Optimizer names an update rule and its parameters.
type Optimizer struct {
	// Name is the update rule.
	Name optimizers.Kind `json:"optimizer,omitzero" default:"sgd" also:"name kind"`
	// LearningRate of the rule. With sgd, momentum and nesterov it is by default 0.5 for
	// clients (Augenstein et al. 2020, appendix B.2), 1 for the server, and 0.005
	// for central training (Thakkar et al. 2020, section 4.2); the other update
	// rules need it stated.
	LearningRate float64 `json:"learning_rate,omitzero" range:"(0,1e6]" also:"lr rate"`
	optimizers.Given
	// Schedule changes the learning rate over the rounds (sgd: steps). Absent: it
	// stays.
	Schedule *Schedule `json:"schedule,omitempty" also:"learning_rate_schedule decay warmup"`
}

// Schedule is how a learning rate changes: a warm-up, then the course of its kind.
type Schedule struct {
	// Kind of course after the warm-up: constant stays, step falls by a factor
	// every so often, cosine falls along half a cosine until the last round.
	Kind optimizers.ScheduleKind `json:"kind" default:"constant"`
	// WarmUp is the number of first rounds over which the rate rises linearly, the
	// last of them having all of it.
	WarmUp int `json:"warm_up,omitzero" default:"0" range:"[0,1000000000]" unit:"rounds (sgd: steps)" also:"warmup"`
	// Every so many rounds after the warm-up the rate is multiplied by factor.
	Every int `json:"every,omitzero" range:"[1,1000000000]" when:"kind=step" unit:"rounds (sgd: steps)"`
	// Factor by which the rate falls.
	Factor float64 `json:"factor,omitzero" range:"(0,1]" when:"kind=step" also:"gamma"`
	// Floor is the share of the full rate that the cosine has in the last round. With
	// a cosine more rounds are another training, not its continuation.
	Floor float64 `json:"floor,omitzero" default:"0" range:"[0,1]" when:"kind=cosine" source:"Loshchilov and Hutter 2017, equation 5"`
}

// Config is the schedule of a training of so many rounds (sgd: steps); nil where
// the rate never changes.
func (s *Schedule) Config(rounds int) *optimizers.Schedule {
	if s == nil || s.Kind == optimizers.Constant && s.WarmUp == 0 {
		return nil
	}
	out := optimizers.Schedule{Kind: s.Kind, WarmUp: s.WarmUp, Every: s.Every, Factor: s.Factor, Floor: s.Floor}.For(rounds)
	return &out
}

// check says what is wrong with the schedule of a training of so many rounds.
func (s *Schedule) check(rounds int) error {
	config := s.Config(rounds)
	if config == nil {
		return nil
	}
	return config.Validate()
}

// Config is the update rule with its parameters. It is complete for the
// optimizers of a resolved experiment. Of an unknown name, which is a mistake
// that Parse reports, it is not valid.
func (o *Optimizer) Config() optimizers.Config {
	config, err := o.Given.Config(o.Name)
	if err != nil {
		return optimizers.Config{Kind: o.Name}
	}
	return config
}

// complete fills in the parameters that the update rule uses. learningRate is
// the default for rules whose step is as large as the gradient; where no
// default suits the rule, the learning rate stays 0.
func (o *Optimizer) complete(learningRate float64) {
	rule, err := optimizers.Find(o.Name)
	if err != nil {
		return // Parse reports it
	}
	if o.LearningRate == 0 && rule.PlainStep {
		o.LearningRate = learningRate
	}
	o.Given.Complete(o.Name)
}

// title is the update rule as the papers spell it.
func (o *Optimizer) title() string {
	rule, err := optimizers.Find(o.Name)
	if err != nil {
		return string(o.Name) // Parse reports it
	}
	return rule.Title
}
