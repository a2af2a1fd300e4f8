package experiment

import (
	"slices"

	"coalmine/models"
)

// Of is the experiment that a preparation of e trains: nothing is inserted or measured.
func (p *Preparation) Of(e *Experiment) *Experiment {
	data := e.Data
	data.Faults, data.Select, data.Sanitize, data.Disagreement, data.Devices = nil, nil, nil, nil, nil
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
	judges := func(m Method) bool { return m.Classifier }
	if !c.Data.Select.predicted() && !slices.ContainsFunc(c.Audit.Asked(), judges) {
		c.fail([]string{path, "data.select"}, "is used by nothing; expected data.select.examples, data.select.users or audit.generated_images, or no such preparation")
	}
	c.learningRate(path, &p.Optimizer)
}
