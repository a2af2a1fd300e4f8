package forecast

import (
	"cmp"
	"errors"
	"fmt"

	"coalmine/internal/encoding"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
)

// maxRecipes is the maximum number of recipes in a file.
const maxRecipes = 1000

// recipe is an entry of a file of recipes. Its fields are named as in experiment files.
type recipe struct {
	Name            string           `yaml:"name"`
	Population      int              `yaml:"population"`
	Cohort          int              `yaml:"cohort"`
	Rounds          int              `yaml:"rounds"`
	NoiseMultiplier *float64         `yaml:"noise_multiplier"`
	Sampling        privacy.Sampling `yaml:"sampling"`
	CountNoise      *float64         `yaml:"count_noise"`
	Participations  int              `yaml:"participations"`
	Separation      int              `yaml:"separation"`
	// Mechanism correlates the noise of separated sampling.
	Mechanism *correlated.Mechanism `yaml:"mechanism"`
}

// treeSampling is the sampling of a recipe of tree aggregation.
const treeSampling = "tree"

// ReadRecipes reads a YAML file that lists recipes to compose. Conversion, accountant and unit come from
// like; source names the file in errors. Each error names the recipe or the line.
func ReadRecipes(source string, data []byte, like privacy.Recipe) ([]Training, error) {
	var recipes []recipe
	if err := encoding.UnmarshalYAML(data, &recipes); err != nil {
		return nil, fmt.Errorf("%s:%w", source, err)
	}
	if n := len(recipes); n == 0 || n > maxRecipes {
		return nil, fmt.Errorf("%s has %d recipes; expected a list of 1 to %d, such as - {population: 392000, cohort: 5000, rounds: 784, noise_multiplier: 1}", source, n, maxRecipes)
	}
	var trainings []Training
	var errs []error
	for i, r := range recipes {
		t, err := r.training(source, i+1, like)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: recipe %d: %w", source, i+1, err))
		}
		trainings = append(trainings, t)
	}
	return trainings, errors.Join(errs...)
}

// training converts the recipe to a Training. number is its place in the list.
func (r recipe) training(source string, number int, like privacy.Recipe) (Training, error) {
	t := Training{Run: source, Cell: fmt.Sprint(number), Label: r.label(), OfUsers: r.Population, Recipe: like}
	if r.NoiseMultiplier == nil {
		return t, errors.New("noise_multiplier is missing: the noise on a round's sum over the clip norm (0 is none)")
	}
	t.Recipe.Population, t.Recipe.Cohort, t.Recipe.Rounds = r.Population, r.Cohort, r.Rounds
	t.Recipe.NoiseMultiplier, t.Recipe.Sampling = *r.NoiseMultiplier, r.Sampling
	if r.CountNoise != nil {
		t.Recipe.ClipQuantile = privacy.CountedClipping(*r.CountNoise)
	}
	t.Recipe.Mechanism = r.Mechanism
	switch {
	case r.Sampling == privacy.Separated:
		t.Recipe.Participations, t.Recipe.Separation = r.Participations, r.Separation
		return t, t.Recipe.Validate()
	case r.Sampling != treeSampling && (r.Participations != 0 || r.Separation != 0):
		return t, fmt.Errorf("participations and separation with %s sampling; they need sampling: %s or %s", t.Recipe.Sampling, treeSampling, privacy.Separated)
	case r.Sampling != treeSampling:
		return t, t.Recipe.Validate()
	}
	if r.CountNoise != nil {
		return t, errors.New("count_noise with a tree: expected a fixed clip norm, because the tree does not cover the count of clipped updates")
	}
	t.Recipe.Sampling = ""
	t.Recipe.Tree = &privacy.Participations{Times: cmp.Or(r.Participations, 1), Separation: r.Separation}
	return t, t.Recipe.Validate()
}

// label returns the name of the recipe, or its sampling.
func (r recipe) label() string {
	switch {
	case r.Name != "":
		return r.Name
	case r.Sampling == "":
		return string(privacy.FixedSize)
	}
	return string(r.Sampling)
}
