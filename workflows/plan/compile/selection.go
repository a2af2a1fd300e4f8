package compile

import (
	"encoding/json"

	"coalmine/internal/childprocess"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/external"
	"coalmine/tasks/selection"
	"coalmine/tasks/training"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// selectPart narrows the population to the choice of data.select.
func (c *cell) selectPart() {
	s := c.experiment.Data.Select
	switch {
	case s == nil || s.Words != nil:
		return
	case s.Users != nil || s.Examples.Predicted():
		c.selectPredicted(s)
		return
	case s.Examples == selection.AtRandom:
		params := selection.RandomParams{Seed: c.experiment.Seed, Share: s.Share.Float64(), PerUser: s.PerUser, AtLeast: s.AtLeast}
		c.selected = c.node(selection.Random, "random examples", params, c.populationEdges()...)
	case s.Examples == selection.OfLowChance:
		c.selectUnlikely(s)
	default:
		params := selection.LabelsParams{Criterion: s.Examples, AtLeast: s.AtLeast}
		c.selected = c.node(selection.Labels, string(s.Examples)+" examples", params, c.populationEdges()...)
	}
	c.population, c.shards = c.selected, c.selected
}

// selectPredicted selects by the predictions of the prepared classifier.
func (c *cell) selectPredicted(s *experiment.Select) {
	predictions, clean, ok := c.predicted()
	if !ok {
		return
	}
	edges := append(c.populationEdges(), edge{selection.PredictionsInput, predictions})
	if s.Examples != "" {
		params := selection.ExamplesParams{Outcome: s.Examples, AtLeast: s.AtLeast}
		c.selected = c.node(selection.Examples, string(s.Examples)+" examples", params, edges...)
		c.population, c.shards = c.selected, c.selected
		return
	}
	side, percentile := s.Users.Side()
	edges = append(edges, edge{selection.CleanInput, clean})
	c.selected = c.node(selection.Users, "users "+string(side)+" a percentile", selection.UsersParams{Side: side, Percentile: percentile}, edges...)
	c.population = c.selected // over the same shards
}

// classifier returns the cell of the prepared classifier, or false if there is none.
func (c *cell) classifier() (*cell, bool) {
	p := c.experiment.Prepare
	if p == nil || p.Classifier == nil {
		return nil, false
	}
	return c.prepare(p.Classifier.ExperimentFor(c.experiment), c.files, plan.Ref{}), true
}

// predicted returns the prepared classifier's predictions for the population so far, with and without
// planted faults, or false if there is no classifier.
func (c *cell) predicted() (predictions, clean plan.Ref, ok bool) {
	apart, ok := c.classifier()
	if !ok {
		return predictions, clean, false
	}
	predictions = c.predictions(apart.model)
	apart.population, apart.shards = apart.everything()
	return predictions, apart.predictions(apart.model), true
}

// everything returns the population before selection, and its shards.
func (c *cell) everything() (pop, shards plan.Ref) {
	if scheme, err := population.FindPartition(c.experiment.Data.Partition); err == nil && scheme.Rewrites {
		return c.placements, c.placements
	}
	return c.placements, c.parts
}

// selectUnlikely selects by the losses under one or two prepared language models.
func (c *cell) selectUnlikely(s *experiment.Select) {
	p := c.experiment.Prepare
	if p == nil || p.LanguageModel == nil {
		return
	}
	params := selection.UnlikelyParams{Above: s.Above, Percentile: 100 * s.Percentile.Float64(), AtLeast: s.AtLeast}
	edges := append(c.populationEdges(), edge{selection.LossesInput, c.lossesUnder(p.LanguageModel, "public model")})
	if p.SecondLanguageModel != nil {
		params.Ratio = true
		edges = append(edges, edge{selection.SecondInput, c.lossesUnder(p.SecondLanguageModel, "second model")})
	}
	c.selected = c.node(selection.Unlikely, "unlikely examples", params, edges...)
}

// lossesUnder returns the losses of the population so far under a prepared language model.
func (c *cell) lossesUnder(p *experiment.LanguagePreparation, name string) plan.Ref {
	e, files, vocabulary := p.ExperimentFor(c.experiment), c.files, plan.Ref{}
	if p.Source != "" {
		var err error
		files, err = c.sources.Files(&e.Data)
		c.fail(err)
		vocabulary = c.parts
	}
	model := c.prepare(e, files, vocabulary).model
	return c.node(training.Losses, "losses under the "+name, struct{}{}, append([]edge{{training.ModelInput, model}}, c.populationEdges()...)...)
}

// prepare compiles a training on which the cell depends, and returns the cell of that training. Its
// vocabulary comes from the given node or, if that is zero, from its own data.
func (c *cell) prepare(e *experiment.Experiment, files []storage.Digest, vocabulary plan.Ref) *cell {
	apart := *c
	apart.experiment, apart.vocabulary = e, vocabulary
	apart.data(files)
	if apart.err == nil {
		apart.training()
	}
	c.err = apart.err
	return &apart
}

// predictions returns the predictions of a classifier for the population.
func (c *cell) predictions(model plan.Ref) plan.Ref {
	return c.node(selection.Predictions, "predictions", struct{}{}, append([]edge{{selection.ModelInput, model}}, c.populationEdges()...)...)
}

// populationEdges returns the population and its shards, under the names that all kinds use.
func (c *cell) populationEdges() []edge {
	return []edge{{population.Input, c.population}, {population.ShardsInput, c.shards}}
}

// external compiles a training by an external program, as one node.
func (c *cell) external() {
	t := &c.experiment.Training
	c.model = c.node(external.Train, "training by "+t.Command, c.trainParams(), append(c.populationEdges(), edge{population.PartsInput, c.parts})...)
	c.rest = plan.Tail{Rounds: t.Rounds, Node: c.model}
}

func (c *cell) trainParams() external.TrainParams {
	t := &c.experiment.Training
	params := external.TrainParams{
		Seed: c.experiment.Seed, Command: t.Command, Code: c.code(), Job: json.RawMessage(t.Job), Rounds: t.Rounds,
		Deterministic: t.Deterministic, Validation: c.experiment.Data.Validation.Exists(), Shards: shardsOf(t), Image: c.experiment.Data.Shape(),
	}
	if s := c.experiment.Sender(); s != nil {
		params.OneShot = s.Request()
	}
	params.Replay = c.experiment.Replay()
	return params
}

// shardsOf returns the number of files of training data, or 0 for a single file.
func shardsOf(t *experiment.Training) int {
	if t.Shards == 1 {
		return 0
	}
	return t.Shards
}

// code returns the digest of the training's code, or zero.
func (c *cell) code() storage.Digest {
	sha256 := c.experiment.Training.CodeSHA256
	if sha256 == "" {
		return storage.Digest{}
	}
	digest, err := storage.ParseDigest(sha256)
	c.fail(err)
	return digest
}

// runsCommands reports whether tasks with these parameters run an external command.
func runsCommands(kind tasks.Kind, params any) bool {
	asker, ok := params.(clientprograms.ProgramUser)
	return kind.Command || ok && asker.UsesProgram() != nil
}

// commandClass returns the class of the cell's commands.
func (c *cell) commandClass() tasks.Class {
	class := c.experiment.Training.Class
	if p := c.experiment.Training.PyTorch; p != nil {
		class = p.Class
	}
	if class != tasks.Compute && class != "" {
		return class
	}
	return tasks.Commands
}

// terms returns the environment and the limits of the cell's commands as JSON.
func (c *cell) terms() json.RawMessage {
	l, t := c.experiment.Training.Limits, childprocess.Terms{Environment: c.experiment.Training.Environment}
	if l != nil {
		const mebibyte = 1 << 20
		t.Seconds, t.AnswerSeconds, t.Network = float64(l.Time), float64(l.Answer), l.Network
		t.Memory, t.Files = int64(l.Memory)*mebibyte, int64(l.Files)*mebibyte
	}
	text, err := json.Marshal(t)
	c.fail(err)
	return text
}
