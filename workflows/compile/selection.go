package compile

import (
	"coalmine/tasks/datasets"
	"coalmine/tasks/selection"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// selectPart narrows the population to what data.select chooses.
func (c *cell) selectPart() {
	s, p := c.experiment.Data.Select, c.experiment.Prepare
	if s == nil || s.Words != nil || p == nil || p.Classifier == nil {
		return
	}
	clean := c.prepare(p.Classifier)
	edges := append(c.populationEdges(), edge{selection.PredictionsInput, c.predictions(clean.model)})
	if s.Examples != "" {
		params := selection.ExamplesParams{Outcome: s.Examples, AtLeast: s.AtLeast}
		c.selected = c.node(selection.Examples, string(s.Examples)+" examples", params, edges...)
		c.population, c.shards = c.selected, c.selected
		return
	}
	side, percentile := s.Users.Side()
	edges = append(edges, edge{selection.CleanInput, clean.predictions(clean.model)})
	c.selected = c.node(selection.Users, "users "+string(side)+" a percentile", selection.UsersParams{Side: side, Percentile: percentile}, edges...)
	c.population = c.selected // over the same shards
}

// classifier is the one that is prepared, as it is trained, and the parts of its data; false
// without.
func (c *cell) classifier() (model, clean plan.Ref, ok bool) {
	p := c.experiment.Prepare
	if p == nil || p.Classifier == nil {
		return model, clean, false
	}
	apart := c.prepare(p.Classifier)
	return apart.model, apart.parts, true
}

// prepare compiles a training that the cell rests on, and returns the cell of which it is.
func (c *cell) prepare(p *experiment.Preparation) *cell {
	apart := *c
	apart.experiment = p.Of(c.experiment)
	apart.data(c.files)
	if apart.err == nil {
		apart.training()
	}
	c.err = apart.err
	return &apart
}

// predictions are those of a classifier for the population.
func (c *cell) predictions(model plan.Ref) plan.Ref {
	return c.node(selection.Predictions, "predictions", struct{}{}, append([]edge{{selection.ModelInput, model}}, c.populationEdges()...)...)
}

func (c *cell) populationEdges() []edge {
	return []edge{{datasets.PopulationInput, c.population}, {datasets.ShardsInput, c.shards}}
}
