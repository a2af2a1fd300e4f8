package experiment

import (
	"coalmine/internal/readable"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/tasks/datasets/population"
)

// Config returns the mechanism for tasks and recipes, or nil for independent noise. The file or Resolve
// sets its numbers.
func (m *Mechanism) Config() *correlated.Mechanism {
	if m == nil {
		return nil
	}
	return &correlated.Mechanism{Kind: m.Kind, Scales: m.Scales, Decays: m.Decays, Coefficients: m.Coefficients}
}

// given reports whether the file contains the numbers of the mechanism, if it needs any.
func (m *Mechanism) given() bool {
	return m.Kind == correlated.KindTree || m.Scales != nil || m.Decays != nil || m.Coefficients != nil
}

// found returns the mechanism with the best numbers for a participation. It keeps only useful buffers, and
// at most as many bands as rounds.
func (m Mechanism) found(p correlated.Participation) (*Mechanism, error) {
	switch m.Kind {
	case correlated.KindBLT:
		b, err := correlated.OptimizeBLT(p, m.Buffers)
		m.Scales, m.Decays, m.Buffers = b.Scales, b.Decays, len(b.Scales)
		return &m, err
	case correlated.KindBanded:
		b, err := correlated.OptimizeBanded(p, min(m.Bands, p.Rounds))
		m.Coefficients, m.Bands = b.Coefficients, len(b.Coefficients)
		return &m, err
	case correlated.KindTree:
	}
	return &m, nil
}

// separated checks separated sampling and correlated noise.
func (c *checker) separated() {
	t := &c.Training
	if t.Sampling == privacy.Separated && t.Central() {
		c.fail([]string{"training.sampling", "training.algorithm"}, "separates the participations of a user, which training.algorithm: sgd does not support; expected another sampling, or fedavg")
	}
	if t.Privacy == nil || t.Privacy.Mechanism == nil {
		return
	}
	const path = "training.privacy.mechanism"
	if t.Sampling != privacy.Separated {
		c.fail([]string{path, "training.sampling"}, "correlates the noise of rounds, which needs separated participations of users; set training.sampling to %s, or remove the mechanism", privacy.Separated)
	}
	if t.Privacy.NoiseMultiplier == 0 {
		c.fail([]string{path, "training.privacy.noise_multiplier"}, "correlates noise, but there is no noise; set training.privacy.noise_multiplier, or remove the mechanism")
	}
	if t.Privacy.Adaptive != nil {
		c.fail([]string{path, "training.privacy.adaptive"}, "changes the clip norm between rounds, but correlated noise needs the same clip norm in all rounds; remove one of the two")
	}
	c.coefficients(t.Privacy.Mechanism)
}

// coefficients checks the numbers that the file gives.
func (c *checker) coefficients(m *Mechanism) {
	const path = "training.privacy.mechanism."
	if !m.given() {
		return
	}
	switch m.Kind {
	case correlated.KindBLT:
		if len(m.Scales) != m.Buffers || len(m.Decays) != m.Buffers {
			c.fail([]string{path + "scales", path + "decays", path + "buffers"}, "are %d scales and %d decays; expected %d of each, the number of buffers, or neither", len(m.Scales), len(m.Decays), m.Buffers)
			return
		}
	case correlated.KindBanded:
		if len(m.Coefficients) != m.Bands {
			c.fail([]string{path + "coefficients", path + "bands"}, "are %d coefficients; expected %d, the number of bands, or none", len(m.Coefficients), m.Bands)
			return
		}
	case correlated.KindTree:
	}
	if _, err := m.Config().Strategy(); err != nil {
		c.fail([]string{path + "kind"}, "has invalid numbers: %v", err)
	}
}

// settle returns the training with the values of a separated training that depend on its users and rounds:
// the separation and the numbers of its mechanism.
func (c *dataChecker) settle(rounds int) Training {
	t := c.Experiment.Training
	users := c.certain()
	if t.Sampling != privacy.Separated || rounds == 0 || t.Cohort > users {
		return t
	}
	if t.Separation == 0 {
		t.Separation = users / t.Cohort
	}
	if most := users / t.Cohort; t.Separation > most {
		c.fail("training.separation", "is %d; expected at most %d, because that number of rounds with cohorts of %d takes all of the %s", t.Separation, most, t.Cohort, readable.Count(users, "user"))
		return t
	}
	p := privacy.Recipe{Population: users, Cohort: t.Cohort, Separation: t.Separation}.Participation(rounds)
	if t.Participations > 0 && p.Times > t.Participations {
		c.fail("training.participations", "is %d, but with %s some user takes part %s; expected at least that, or fewer rounds", t.Participations, readable.Count(rounds, "round"), readable.Count(p.Times, "time"))
	}
	c.settleMechanism(&t, p)
	return t
}

func (c *dataChecker) settleMechanism(t *Training, p correlated.Participation) {
	if t.Privacy == nil || t.Privacy.Mechanism == nil {
		return
	}
	const path = "training.privacy.mechanism"
	if p.Rounds > privacy.MaxCorrelatedRounds {
		c.fail(path, "supports at most %d rounds, but the training has %d; expected fewer rounds", privacy.MaxCorrelatedRounds, p.Rounds)
		return
	}
	if t.Privacy.Mechanism.given() {
		return
	}
	found, err := t.Privacy.Mechanism.found(p)
	if err != nil {
		c.fail(path, "cannot be computed for the rounds: %v", err)
	}
	changed := *t.Privacy
	changed.Mechanism = found
	t.Privacy = &changed
}

// certain returns the number of users that the population has at least. A refilled one may be smaller than
// the balanced one.
func (c *dataChecker) certain() int {
	users, _ := c.available()
	if scheme, err := population.FindPartition(c.Experiment.Data.Partition); err == nil && scheme.Refills && c.Experiment.Data.Users.Words > 0 {
		users -= int(spareUsers * float64(users))
	}
	return users
}

// adopt copies the values that settle has set.
func (t *Training) adopt(settled *Training) {
	t.Separation = settled.Separation
	if t.Privacy != nil && t.Privacy.Mechanism != nil {
		t.Privacy.Mechanism = settled.Privacy.Mechanism
	}
}

// Optimizer names an update rule and its parameters.
type Optimizer struct {
	// Update rule.
	Name optimizers.Kind `json:"optimizer,omitzero" default:"sgd" also:"name kind"`
	// Learning rate, with sgd, momentum and nesterov by default 0.5 for clients (Augenstein et al.
	// 2020, appendix B.2), 1 for the server and 0.005 for central training (Thakkar et al. 2020,
	// section 4.2); required with other rules.
	LearningRate float64 `json:"learning_rate,omitzero" range:"[1e-37,1e6]" also:"lr rate"`
	optimizers.RuleParameters
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
	// Share of the full rate in the last round. A training with more rounds does not continue a shorter one.
	Floor float64 `json:"floor,omitzero" default:"0" range:"[0,1]" when:"kind=cosine" source:"Loshchilov and Hutter 2017, equation 5"`
}

// Config returns the schedule for a training of this many rounds (sgd: steps), or nil if the rate is constant.
func (s *Schedule) Config(rounds int) *optimizers.Schedule {
	if s == nil || s.Kind == optimizers.Constant && s.WarmUp == 0 {
		return nil
	}
	out := optimizers.Schedule{Kind: s.Kind, WarmUp: s.WarmUp, Every: s.Every, Factor: s.Factor, Floor: s.Floor}.For(rounds)
	return &out
}

// check validates the schedule for a training of this many rounds.
func (s *Schedule) check(rounds int) error {
	config := s.Config(rounds)
	if config == nil {
		return nil
	}
	return config.Validate()
}

// Config returns the update rule with its parameters. It is valid for the optimizers of a resolved
// experiment. For an unknown name, which Parse reports, it is invalid.
func (o *Optimizer) Config() optimizers.Config {
	config, err := o.RuleParameters.Config(o.Name)
	if err != nil {
		return optimizers.Config{Kind: o.Name}
	}
	return config
}

// complete sets the parameters that the update rule uses. learningRate is the default of rules with a step
// proportional to the gradient; others have none.
func (o *Optimizer) complete(learningRate float64) {
	rule, err := optimizers.Find(o.Name)
	if err != nil {
		return // Parse reports it
	}
	if o.LearningRate == 0 && rule.PlainStep {
		o.LearningRate = learningRate
	}
	o.RuleParameters.Complete(o.Name)
}

// title returns the name of the update rule in the papers.
func (o *Optimizer) title() string {
	rule, err := optimizers.Find(o.Name)
	if err != nil {
		return string(o.Name) // Parse reports it
	}
	return rule.Title
}
