package compile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/natural"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/devices"
	"coalmine/tasks/training"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// Recipe returns the settings that determine how a cell's data are prepared, for datasets.Survey.
func Recipe(e *experiment.Experiment) datasets.Recipe {
	return datasets.Recipe{
		Seed:               e.Seed,
		Reading:            e.Data.Reading(),
		Faults:             e.Data.Planted(),
		Outside:            e.Data.Outside(),
		VocabularySize:     e.Data.Vocabulary.Size,
		TestFraction:       e.Data.Test.Fraction.Float64(),
		ValidationFraction: e.Data.Validation.Fraction.Float64(),
		TrainShare:         e.Data.Share.Float64(),
		Words:              e.Data.Users.Words,
		HeldOutUsers:       e.Data.HeldOutUsers.Fraction.Float64(),
		Members:            e.Data.Devices != nil,
		Sizes:              e.TrainsClients() && e.Data.Devices == nil,
		Named:              strings.Join(e.NamedWords(), " "),
		Phrases:            e.Phrases(),
		Secrets:            secrets(e),
	}
}

// secrets returns the patterns of audit.natural, or none if data.sanitize changes the texts that it searches.
func secrets(e *experiment.Experiment) filters.Wanted {
	if f, asked := audits.FieldsOf[*natural.Fields](e.Setting()); asked && e.Data.Sanitize == nil {
		return f.Natural.Wanted()
	}
	return filters.Wanted{}
}

// Limits returns the limits of a cell's source.
func Limits(e *experiment.Experiment) source.Limits {
	l := e.Data.Limits
	if l == nil {
		return source.Limits{}
	}
	return source.Limits{LineBytes: l.Line, TotalBytes: l.Text, Ratio: l.Ratio}
}

// data compiles the nodes from the source to the population: parts -> vocabulary -> balance -> canaries -> partition.
func (c *cell) data(files []storage.Digest) {
	c.files = files
	r := Recipe(c.experiment)
	c.corpus = c.imported(files, r)
	c.parts = c.encode(files, r)
	label := fmt.Sprintf("balanced users of %d words", r.Words)
	if r.Words == 0 {
		label = "users as they are"
	}
	c.balanced = c.node(population.Balance, label, r.Balance(), edge{population.PartsInput, c.parts})
	c.partition()
}

func (c *cell) imported(files []storage.Digest, r datasets.Recipe) plan.Ref {
	label := "import " + c.experiment.Data.Source
	if len(r.Faults) > 0 {
		label += " with faults"
	}
	return c.node(datasets.Import, label, r.Import(files, Limits(c.experiment)))
}

// encode compiles the nodes from the source to the parts. The vocabulary is computed without faults, so it
// lacks words made by faults, and words selected because they are unknown.
func (c *cell) encode(files []storage.Digest, r datasets.Recipe) plan.Ref {
	edges, label := []edge{{datasets.CorpusInput, c.imported(files, r)}}, "parts and vocabulary"
	if c.vocabulary != (plan.Ref{}) && !r.Level.Scheme().Fixed() {
		return c.node(datasets.Encode, "parts of other data", r.Encode(), append(edges, edge{datasets.VocabularyInput, c.vocabulary})...)
	}
	if recipe, elsewhere := r.Vocabulary(); elsewhere {
		edges = append(edges, edge{datasets.VocabularyInput, c.encode(files, recipe)})
		label = "parts with faults"
	}
	if r.Outside.Size > 0 {
		return c.node(datasets.OutOfVocabulary, fmt.Sprintf("words outside of a vocabulary of %d", r.Outside.Size), r.OutOfVocabulary(), edges...)
	}
	return c.node(datasets.Encode, label, r.Encode(), edges...)
}

func (c *cell) partition() {
	e := c.experiment
	if e.Canaries != nil {
		c.canaries = c.node(canaries.Draw, "draw canaries", drawParams(e), edge{population.PartsInput, c.parts})
		c.insertions = c.node(canaries.Insert, "insert canaries", canaries.InsertParams{Seed: e.Seed},
			edge{population.BalancedInput, c.balanced}, edge{canaries.CanariesInput, c.canaries})
	}
	c.placements, c.shards = c.arrange(c.balanced, c.insertions)
	if c.err != nil {
		return
	}
	c.population = c.placements
	c.selectPart()
	c.sanitize()
	c.disagree()
	c.undivided = c.population
	c.divide()
	for _, m := range e.Audit.Requested() {
		if p, ok := m.Fields.(audits.Planter); ok {
			c.population = c.plant(p)
		}
	}
}

// arrange partitions users, with canaries if there are insertions. shards is the node with the text of the
// population.
func (c *cell) arrange(balanced, insertions plan.Ref) (pop, shards plan.Ref) {
	scheme, err := population.FindPartition(c.experiment.Data.Partition)
	if err != nil {
		c.err = err
		return pop, shards
	}
	edges := []edge{{population.PartsInput, c.parts}, {population.BalancedInput, balanced}}
	if insertions != (plan.Ref{}) {
		edges = append(edges, edge{population.InsertionsInput, insertions})
	}
	recipe := Recipe(c.experiment)
	pop = c.node(population.Partition, string(scheme.Partition)+" partition", scheme.Params(recipe.Words, recipe.Seed), edges...)
	if scheme.Rewrites {
		return pop, pop
	}
	return pop, c.parts // a view of the encoded stream
}

// sanitize removes the matches of patterns, after the canaries are inserted.
func (c *cell) sanitize() {
	s := c.experiment.Data.Sanitize
	if s == nil {
		return
	}
	c.sanitized = c.node(filters.Sanitize, "sanitize", filters.SanitizeParams{Patterns: s.Patterns, Own: s.Own, Remove: s.Remove},
		append(c.populationEdges(), edge{population.PartsInput, c.parts})...)
	c.population, c.shards = c.sanitized, c.sanitized
}

// disagree removes the sentences on which the models of two halves disagree.
func (c *cell) disagree() {
	d := c.experiment.Data.Disagreement
	if d == nil {
		return
	}
	whole := c.populationEdges()
	seed, edges := c.experiment.Seed, slices.Clone(whole)
	for half := range 2 {
		data := c.node(filters.Half, fmt.Sprintf("half %d of 2", half+1), filters.HalfParams{Seed: seed, Half: half}, whole...)
		losses := c.node(training.Losses, fmt.Sprintf("losses under the model of half %d", half+1), struct{}{}, append([]edge{
			{training.ModelInput, c.trainApart(data, d.StepsOf(c.experiment.Training.Rounds))},
		}, c.populationEdges()...)...)
		edges = append(edges, edge{filters.LossesInput(half), losses})
	}
	c.disagreed = c.node(filters.Disagree, "disagreement filter", filters.DisagreeParams{Seed: seed, Threshold: d.Threshold}, edges...)
	c.population, c.shards = c.disagreed, c.disagreed
}

func drawParams(e *experiment.Experiment) canaries.DrawParams {
	c := e.Canaries
	spaces := c.Spaces(&e.Data)
	return canaries.DrawParams{
		Seed: e.Seed, Configurations: c.Configurations(), PerConfiguration: c.PerConfiguration,
		Space: spaces[0], More: spaces[1:], HeldBack: c.HeldBack,
	}
}

// Sources returns the files from which the data of an experiment was imported, each once.
func Sources(spec *experiment.Spec) ([]storage.Digest, error) {
	var sources []storage.Digest
	seen := map[storage.Digest]bool{}
	for i := range spec.Cells {
		files, err := cellFiles(spec, &spec.Cells[i].Experiment)
		if err != nil {
			return nil, fmt.Errorf("cell %s: %w", spec.Cells[i].Name, err)
		}
		for _, digest := range files {
			if !seen[digest] {
				seen[digest] = true
				sources = append(sources, digest)
			}
		}
	}
	return sources, nil
}

// cellFiles returns the files of all sources of a cell.
func cellFiles(spec *experiment.Spec, e *experiment.Experiment) ([]storage.Digest, error) {
	files, err := spec.Files(&e.Data)
	second, missing := spec.SecondFiles(&e.Data)
	all, err := slices.Concat(append(second[:], files)...), errors.Join(err, missing)
	ofAudits, missing := spec.AuditFiles(e)
	for _, x := range e.AuditSources() {
		all = append(all, ofAudits[x.Path]...)
	}
	err = errors.Join(err, missing)
	_, code := e.Training.CodeOf()
	for _, sha256 := range []string{*code, e.Training.ScorerSHA256, e.Data.TokenizerSHA256, e.Model.PretrainedSHA256} {
		if file, given := storage.ParseDigest(sha256); given == nil {
			all = append(all, file)
		}
	}
	for _, source := range e.Sources() {
		files, more := spec.Files(&source.Of.ExperimentFor(e).Data)
		all, err = slices.Concat(all, files), errors.Join(err, more)
	}
	return all, err
}

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
	edges := []edge{{population.Input, c.divided}, background}
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
		edge{population.Input, c.divided}, edge{devices.ProfilesInput, encoded}, edge{datasets.CorpusInput, corpus})
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

// SecondRecipe returns the recipe of a second source. It reads the source as the data, but all of it into one part.
func SecondRecipe(e *experiment.Experiment, source *experiment.SecondSource) datasets.Recipe {
	return datasets.Recipe{Reading: source.Reading(&e.Data), VocabularySize: e.Data.Vocabulary.Size}
}
