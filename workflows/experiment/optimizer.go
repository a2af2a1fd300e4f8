package experiment

import "coalmine/models/optimizers"

// Optimizer names an update rule and its parameters.
type Optimizer struct {
	// Update rule.
	Name optimizers.Kind `json:"optimizer,omitzero" default:"sgd" also:"name kind"`
	// Learning rate, with sgd, momentum and nesterov by default 0.5 for clients (Augenstein et al.
	// 2020, appendix B.2), 1 for the server and 0.005 for central training (Thakkar et al. 2020,
	// section 4.2); required with other rules.
	LearningRate float64 `json:"learning_rate,omitzero" range:"(0,1e6]" also:"lr rate"`
	optimizers.Given
	// Schedule of the learning rate. Absent: constant.
	Schedule *Schedule `json:"schedule,omitempty" also:"learning_rate_schedule decay warmup"`
}

// Schedule is the course of a learning rate: a warm-up, then a phase according to its kind.
type Schedule struct {
	// After the warm-up: constant, falling by a factor, or along half a cosine until the last round.
	Kind optimizers.ScheduleKind `json:"kind" default:"constant"`
	// First rounds, in which the rate rises linearly.
	WarmUp int `json:"warm_up,omitzero" default:"0" range:"[0,1000000000]" unit:"rounds (sgd: steps)" also:"warmup"`
	// Rounds between two falls.
	Every int `json:"every,omitzero" range:"[1,1000000000]" when:"kind=step" unit:"rounds (sgd: steps)"`
	// Factor by which the rate falls.
	Factor float64 `json:"factor,omitzero" range:"(0,1]" when:"kind=step" also:"gamma"`
	// Share of the full rate in the last round. More rounds are another training, not a continuation.
	Floor float64 `json:"floor,omitzero" default:"0" range:"[0,1]" when:"kind=cosine" source:"Loshchilov and Hutter 2017, equation 5"`
}

// Config returns the schedule of a training of this many rounds (sgd: steps); nil if the rate is
// constant.
func (s *Schedule) Config(rounds int) *optimizers.Schedule {
	if s == nil || s.Kind == optimizers.Constant && s.WarmUp == 0 {
		return nil
	}
	out := optimizers.Schedule{Kind: s.Kind, WarmUp: s.WarmUp, Every: s.Every, Factor: s.Factor, Floor: s.Floor}.For(rounds)
	return &out
}

// check validates the schedule of a training of this many rounds.
func (s *Schedule) check(rounds int) error {
	config := s.Config(rounds)
	if config == nil {
		return nil
	}
	return config.Validate()
}

// Config returns the update rule with its parameters. It is complete for the optimizers of a
// resolved experiment, and invalid for an unknown name, which Parse reports.
func (o *Optimizer) Config() optimizers.Config {
	config, err := o.Given.Config(o.Name)
	if err != nil {
		return optimizers.Config{Kind: o.Name}
	}
	return config
}

// complete sets the parameters that the update rule uses. learningRate is the default for rules
// whose step is as large as the gradient; for other rules, the learning rate stays 0.
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

// title names the update rule as in the papers.
func (o *Optimizer) title() string {
	rule, err := optimizers.Find(o.Name)
	if err != nil {
		return string(o.Name) // Parse reports it
	}
	return rule.Title
}
