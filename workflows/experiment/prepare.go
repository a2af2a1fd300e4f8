package experiment

import (
	"slices"

	"coalmine/models"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/selection"
)

// ExperimentFor returns the experiment that trains a classifier on the labelled images of e. It inserts and
// measures nothing.
func (p *Preparation) ExperimentFor(e *Experiment) *Experiment {
	data := e.Data.unchanged()
	if data.Image.lacksLabels() {
		data.Select = &Select{Examples: selection.Labelled, AtLeast: 1}
	}
	return p.experiment(e, data, Model{Kind: models.CNN})
}

// ExperimentFor returns the experiment that trains a language model like the model of e.
func (p *LanguagePreparation) ExperimentFor(e *Experiment) *Experiment {
	data := e.Data.unchanged()
	if p.Source != "" {
		form, names := p.of(&data)
		columns := Columns(names)
		columns.Split = "" // train on all data
		data = Data{
			Source: p.Source, SHA256: p.SHA256, Form: form, Columns: &columns,
			Level: data.Level, Sequence: data.Sequence, Vocabulary: data.Vocabulary, Limits: data.Limits, ReadingRules: data.ReadingRules,
		}
	}
	data.Partition = population.IID
	return p.experiment(e, data, e.Model)
}

// unchanged returns the data block without blocks that plant, select, remove or divide data.
func (d *Data) unchanged() Data {
	data := *d
	data.Faults, data.Select, data.Sanitize, data.Disagreement, data.Devices, data.Background = nil, nil, nil, nil, nil, nil
	return data
}

func (p *Preparation) experiment(e *Experiment, data Data, model Model) *Experiment {
	return &Experiment{
		Name: e.Name, Seed: e.Seed, Data: data, Model: model,
		Training: Training{
			Algorithm: SGD, Rounds: p.Steps, Cohort: p.Batch, StepsPerTask: preparedPerTask,
			Client: Client{Optimizer: p.Optimizer}, Checkpoints: e.Training.Checkpoints,
		},
	}
}

// preparedPerTask is the number of steps in a task of a preparation.
const preparedPerTask = 100

// classifier returns the classifier to prepare, or nil.
func (p *Prepare) classifier() *Preparation {
	if p == nil {
		return nil
	}
	return p.Classifier
}

func (p *Prepare) all() []*Preparation {
	if p == nil {
		return nil
	}
	var all []*Preparation
	if p.Classifier != nil {
		all = append(all, p.Classifier)
	}
	for _, l := range p.languages() {
		all = append(all, &l.Of.Preparation)
	}
	return all
}

// Source is the preparation of a language model, on its own source if Of.Source is given.
type Source struct {
	// Path is the path of the block.
	Path string
	// Of is the block.
	Of *LanguagePreparation
}

// languages returns the language models to prepare.
func (p *Prepare) languages() (found []Source) {
	if p != nil && p.LanguageModel != nil {
		found = append(found, Source{"prepare.language_model", p.LanguageModel})
	}
	if p != nil && p.SecondLanguageModel != nil {
		found = append(found, Source{"prepare.second_language_model", p.SecondLanguageModel})
	}
	return found
}

// Sources returns the preparations of language models with their own sources.
func (e *Experiment) Sources() []Source {
	return slices.DeleteFunc(e.Prepare.languages(), func(s Source) bool { return s.Of.Source == "" })
}

func (c *checker) preparingLanguages() {
	for _, l := range c.Prepare.languages() {
		if c.Data.Level.Scheme().Images {
			c.fail([]string{l.Path, "data.level"}, "computes the likelihood of texts, but data.level is %s; expected texts", c.Data.Level)
		}
		if !c.Data.Select.unlikely() {
			c.fail([]string{l.Path, "data.select"}, "is not used; add data.select.examples: unlikely, or remove it")
		}
		if l.Of.Source == "" {
			c.refuse([]string{l.Path + ".sha256", l.Path + ".form", l.Path + ".columns"}, []string{l.Path + ".source"}, "describes a source, but %s.source is missing; add it, or remove the field", l.Path)
		}
		c.prepared(l.Path, &l.Of.Preparation)
	}
}

func (c *checker) preparingClassifier() {
	p := c.Prepare.classifier()
	if p == nil {
		return
	}
	const path = "prepare.classifier"
	if !c.Data.Level.Scheme().Images {
		c.fail([]string{path, "data.level"}, "predicts the labels of images, but data.level is %s; expected image", c.Data.Level)
	}
	if err := p.ExperimentFor(c.Experiment).Model.Config(&c.Data).Validate(); err != nil && c.Data.Level.Scheme().Images {
		c.fail([]string{path, "data.image"}, "does not work with images of %s: %v", c.Data.Reading().Image, err)
	}
	judges := func(m Method) bool { return m.Classifier }
	if !c.Data.Select.predicted() && !slices.ContainsFunc(c.Audit.Requested(), judges) {
		c.fail([]string{path, "data.select"}, "is not used; add data.select.examples, data.select.users, audit.generated_images or audit.accuracy_per_user, or remove it")
	}
	c.prepared(path, p)
}

// prepared checks the optimizer of a preparation.
func (c *checker) prepared(path string, p *Preparation) {
	c.learningRate(path, &p.Optimizer)
	if err := p.Schedule.check(p.Steps); err != nil {
		c.fail([]string{path + ".schedule", path + ".steps"}, "%v", err)
	}
}
