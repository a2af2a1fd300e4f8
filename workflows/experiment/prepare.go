package experiment

import (
	"coalmine/models"
	"coalmine/tasks/datasets"
	"coalmine/tasks/selection"
)

// Side is the side of the percentile whose users are selected, and the percentile, 0 to 100.
func (u *SelectUsers) Side() (selection.Side, float64) {
	if u.Below.IsZero() {
		return selection.Above, 100 * u.Above.Float64()
	}
	return selection.Below, 100 * u.Below.Float64()
}

// Of is the experiment that a preparation of e trains: nothing is inserted or measured.
func (p *Preparation) Of(e *Experiment) *Experiment {
	data := e.Data
	data.Faults, data.Select, data.Sanitize, data.Disagreement = nil, nil, nil, nil
	return &Experiment{
		Name: e.Name, Seed: e.Seed, Data: data, Model: Model{Kind: models.CNN},
		Training: Training{
			Algorithm: SGD, Rounds: p.Steps, Cohort: p.Batch, StepsPerTask: preparedPerTask,
			Client: Client{Optimizer: p.Optimizer}, Checkpoints: e.Training.Checkpoints,
		},
	}
}

// preparedPerTask is how many steps a task of a preparation takes.
const preparedPerTask = 100

// classifier is the one that is prepared, nil without.
func (p *Prepare) classifier() *Preparation {
	if p == nil {
		return nil
	}
	return p.Classifier
}

// selecting checks data.select.
func (c *checker) selecting() {
	s := c.Data.Select
	if s == nil {
		return
	}
	given := 0
	for _, one := range []bool{s.Words != nil, s.Examples != "", s.Users != nil} {
		if one {
			given++
		}
	}
	if given != 1 {
		c.fail([]string{"data.select"}, "has %d of words, examples and users; expected one of the three", given)
	}
	if s.Users != nil && s.Users.Below.IsZero() == s.Users.Above.IsZero() {
		c.fail([]string{"data.select.users"}, "expected one of below and above, such as below: 25%%")
	}
	if s.AtLeast > 0 && s.Examples == "" {
		c.fail([]string{"data.select.at_least", "data.select.examples"}, "is about selected examples; expected data.select.examples beside it")
	}
	if s.Words != nil && c.Data.Level != datasets.ByteLevel {
		c.fail([]string{"data.select.words", "data.level"}, "selects words, which are spelled in bytes, and data.level is %s; expected byte", c.Data.Reading().Level)
	}
	if s.predicted() {
		c.predicted()
	}
}

// predicted reports whether the choice goes by what a classifier predicts.
func (s *Select) predicted() bool { return s != nil && (s.Examples != "" || s.Users != nil) }

// predicted checks what a selection leaves open until its classifier is trained.
func (c *checker) predicted() {
	if c.Prepare.classifier() == nil {
		c.fail([]string{"data.select", "prepare.classifier"}, "goes by what a classifier predicts, and there is none; expected prepare.classifier, such as {steps: 2000}")
	}
	if c.Training.Epochs > 0 {
		c.fail([]string{"training.epochs", "data.select"}, "cannot be counted: how many are selected shows when the classifier is trained; expected training.rounds")
	}
	if p := c.Training.Privacy; p != nil && p.Budget != nil {
		c.fail([]string{"training.privacy.budget", "data.select"}, "cannot be planned: how many users are selected shows when the classifier is trained; expected none")
	}
}

// preparing checks the trainings of the prepare block.
func (c *checker) preparing() {
	p := c.Prepare.classifier()
	if p == nil {
		return
	}
	const path = "prepare.classifier"
	if !c.Data.Level.Scheme().Images {
		c.fail([]string{path, "data.level"}, "predicts the labels of images, and data.level is %s; expected image", c.Data.Level)
	}
	if err := p.Of(c.Experiment).Model.Config(&c.Data).Validate(); err != nil && c.Data.Level.Scheme().Images {
		c.fail([]string{path, "data.image"}, "does not work with images of %s: %v", c.Data.Reading().Image, err)
	}
	c.learningRate(path, &p.Optimizer)
}
