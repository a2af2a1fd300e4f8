package compile

import (
	"fmt"

	"coalmine/tasks/datasets"
	"coalmine/tasks/devices"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// divide gives every user an anonymous device and the adversary's, which train in its place.
func (c *cell) divide() {
	d := c.experiment.Data.Devices
	if d == nil {
		return
	}
	c.divided = c.node(devices.Split, "devices", d.Split(c.experiment.Seed), c.populationEdges()...)
	if d.Defence != nil {
		c.divided = c.mix(d.Defence)
	}
	c.population, c.shards = c.divided, c.divided
}

// mix mixes the background into what is on the devices.
func (c *cell) mix(d *experiment.Defence) plan.Ref {
	r := BackgroundRecipe(c.experiment)
	background := edge{devices.BackgroundInput, c.encodeBackground(r)}
	edges := []edge{{datasets.PopulationInput, c.divided}, background}
	if d.Modes > 0 {
		params := devices.ModesParams{Seed: c.experiment.Seed, Modes: d.Modes, Level: r.Level}
		edges = append(edges, edge{devices.ModesInput, c.node(devices.Modes, fmt.Sprintf("%d modes of the background", d.Modes), params, background)})
	}
	return c.node(devices.Mix, "devices with a background", d.Mix(c.experiment.Seed), edges...)
}

// encodeBackground compiles the way from the background to its tokens, which are those of the
// data.
func (c *cell) encodeBackground(r datasets.Recipe) plan.Ref {
	corpus := c.node(datasets.Import, "import "+c.experiment.Data.Background.Source, r.Import(c.background, Limits(c.experiment)))
	edges := []edge{{datasets.CorpusInput, corpus}}
	if r.Level.Scheme().Symbols == nil {
		edges = append(edges, edge{datasets.VocabularyInput, c.parts})
	}
	return c.node(datasets.Encode, "background", r.Encode(), edges...)
}

// BackgroundRecipe is how data.background is read: as the data are, all of it, in one part.
func BackgroundRecipe(e *experiment.Experiment) datasets.Recipe {
	r := datasets.Recipe{Reading: e.Data.Reading(), VocabularySize: e.Data.Vocabulary.Size}
	r.Timed = false
	return r
}
