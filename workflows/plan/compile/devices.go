package compile

import (
	"fmt"

	"coalmine/tasks/datasets"
	"coalmine/tasks/devices"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// divide replaces every user by two training devices: an anonymous one and the adversary's.
func (c *cell) divide() {
	d := c.experiment.Data.Devices
	if d == nil {
		return
	}
	c.divided = c.node(devices.Split, "devices", d.Split(c.experiment.Seed), c.populationEdges()...)
	if d.Defence != nil {
		c.divided = c.mix(d.Defence)
	}
	if d.Profiles != nil {
		c.divided = c.profile()
	}
	c.population, c.shards = c.divided, c.divided
}

// mix mixes the background into the data on the devices.
func (c *cell) mix(d *experiment.Defence) plan.Ref {
	r := SecondRecipe(c.experiment, c.experiment.Data.Background)
	_, encoded := c.encodeSecond(experiment.BackgroundSource, "background")
	background := edge{devices.BackgroundInput, encoded}
	edges := []edge{{datasets.PopulationInput, c.divided}, background}
	if d.Modes > 0 {
		params := devices.ModesParams{Seed: c.experiment.Seed, Modes: d.Modes, Level: r.Level}
		if labels := r.ImageLabels(); labels > 1 && r.Level.Scheme().Images {
			params.Labels = labels
		}
		edges = append(edges, edge{devices.ModesInput, c.node(devices.Modes, fmt.Sprintf("%d modes of the background", d.Modes), params, background)})
	}
	return c.node(devices.Mix, "devices with a background", d.Mix(c.experiment.Seed), edges...)
}

// profile adds the devices of profiles.
func (c *cell) profile() plan.Ref {
	corpus, encoded := c.encodeSecond(experiment.ProfilesSource, "profiles")
	return c.node(devices.Profiles, "devices with profiles", struct{}{},
		edge{datasets.PopulationInput, c.divided}, edge{devices.ProfilesInput, encoded}, edge{datasets.CorpusInput, corpus})
}

// encodeSecond compiles the nodes that encode a second source in the vocabulary of the data.
func (c *cell) encodeSecond(place int, label string) (corpus, encoded plan.Ref) {
	source := c.experiment.Data.SecondSources()[place].Of
	r := SecondRecipe(c.experiment, source)
	corpus = c.node(datasets.Import, "import "+source.Source, r.Import(c.second[place], Limits(c.experiment)))
	edges := []edge{{datasets.CorpusInput, corpus}}
	if !r.Level.Scheme().Fixed() {
		edges = append(edges, edge{datasets.VocabularyInput, c.parts})
	}
	return corpus, c.node(datasets.Encode, label, r.Encode(), edges...)
}

// SecondRecipe returns the recipe of a second source: that of the data, but all of it in one
// part.
func SecondRecipe(e *experiment.Experiment, source *experiment.SecondSource) datasets.Recipe {
	return datasets.Recipe{Reading: source.Reading(&e.Data), VocabularySize: e.Data.Vocabulary.Size}
}
