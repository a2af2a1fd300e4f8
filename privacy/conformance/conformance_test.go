// Package conformance holds recipes with intervals that contain their true epsilon; README.md
// describes them. Its tests run the accountants of package privacy over them.
package conformance

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/tasks/taskstest"
)

// rounding is the relative error that an accountant in float64 may have.
const rounding = 1e-9

// recipe is an entry of recipes.json, whose README.md describes the fields.
type recipe struct {
	ID           string
	Neighbours   privacy.Neighbouring
	Group        int
	Delta        float64
	Steps        []step
	Lower, Upper *float64 // nil is infinite
	Tolerance    float64
	Method       string
	Published    map[string]float64 // epsilons that others print
}

type step struct {
	Mechanism      string
	Noise, Clip    float64
	CountNoise     float64 `json:"count_noise"`
	Rounds         int
	Sampling       *sampling
	Matrix         *correlated.Mechanism
	Participations int
	Separation     int
}

type sampling struct {
	Kind             string
	Population, Size int
}

func infinite(x *float64) float64 {
	if x == nil {
		return math.Inf(1)
	}
	return *x
}

func corpus(t *testing.T) (recipes []recipe, methods map[string]string) {
	t.Helper()
	return readCorpus(t, "recipes.json")
}

func readCorpus(t *testing.T, name string) (recipes []recipe, methods map[string]string) {
	t.Helper()
	data := must.Get(os.ReadFile(name))(t)
	var file struct {
		Methods map[string]string
		Recipes []recipe
	}
	must.Do(t, json.Unmarshal(data, &file))
	if len(data) > 400_000 {
		t.Errorf("recipes.json has %d bytes: expected at most 400,000", len(data))
	}
	return file.Recipes, file.Methods
}

// family is the part of an id before its number.
func (r recipe) family() string { return r.ID[:strings.LastIndex(r.ID, "-")] }

// plain is the sampling that takes everybody, under each relation. With rate 1 a Poisson sample has
// everybody.
var plain = map[privacy.Neighbouring]privacy.Sampling{
	privacy.AddOrRemoveOne: privacy.Poisson, privacy.ZeroOutOne: privacy.Poisson, privacy.ReplaceOne: privacy.NoSampling,
}

// samplings are those of the accountant by kind of sample; the relations are those that it proves
// something for. A zero update in a Poisson sample equals the member's absence.
var samplings = map[string]struct {
	is    privacy.Sampling
	under []privacy.Neighbouring
}{
	"poisson":     {privacy.Poisson, []privacy.Neighbouring{privacy.AddOrRemoveOne, privacy.ZeroOutOne, privacy.ReplaceOne}},
	"fixed-size":  {privacy.FixedSize, []privacy.Neighbouring{privacy.ReplaceOne}},
	"shuffled":    {privacy.Shuffled, []privacy.Neighbouring{privacy.ReplaceOne}},
	"fixed-order": {privacy.Shuffled, []privacy.Neighbouring{privacy.ReplaceOne}},
}

// training returns a step as a recipe of the accountant; false if it has no words for it.
func (s step) training(relation privacy.Neighbouring, group int) (r privacy.Recipe, supported bool) {
	users := max(1, group)
	r = privacy.Recipe{Population: users, Cohort: users, Rounds: s.Rounds, NoiseMultiplier: s.Noise / s.Clip}
	switch {
	case s.Mechanism == "matrix-gaussian":
		return s.correlated(r), relation == privacy.ZeroOutOne
	case s.Mechanism != "gaussian":
		return r, false
	case s.Sampling == nil:
		r.Sampling = plain[relation]
	default:
		found := samplings[s.Sampling.Kind]
		for _, u := range found.under {
			supported = supported || u == relation
		}
		if !supported {
			return r, false
		}
		r.Population, r.Cohort, r.Sampling = s.Sampling.Population, s.Sampling.Size, found.is
	}
	if s.CountNoise > 0 {
		r.NoiseMultiplier = 1 / math.Hypot(1/r.NoiseMultiplier, 1/(2*s.CountNoise))
		r.ClipQuantile = privacy.CountedClipping(s.CountNoise)
	}
	return r, true
}

// correlated completes the recipe of a training with correlated noise.
func (s step) correlated(r privacy.Recipe) privacy.Recipe {
	if s.Matrix.Kind == correlated.KindTree {
		r.Population, r.Tree = s.Rounds, &privacy.Participations{Times: s.Participations, Separation: s.Separation}
		return r
	}
	mechanism := *s.Matrix
	if mechanism.Kind == "toeplitz" {
		mechanism.Kind = correlated.KindBanded
	}
	r.Sampling, r.Mechanism = privacy.Separated, &mechanism
	r.Population, r.Separation, r.Participations = s.Separation, s.Separation, s.Participations
	return r
}

// proved returns the epsilon that the accountant proves, and that of Rényi divergences, NaN if it is
// not computed; false if it does not support the recipe.
func (r recipe) proved(t *testing.T) (epsilon, renyi float64, supported bool) {
	t.Helper()
	var trainings []privacy.Recipe
	for _, s := range r.Steps {
		training, ok := s.training(r.Neighbours, r.Group)
		if !ok {
			return 0, 0, false
		}
		training.Delta = r.Delta
		trainings = append(trainings, training)
	}
	if r.Group > 1 {
		group, err := privacy.GroupOf(trainings[0], r.Group)
		if err != nil {
			t.Error(r.ID, err)
		}
		return float64(group.EpsilonProved), math.NaN(), true
	}
	if r.Neighbours == privacy.ReplaceOne { // no round of another training fixes the relation
		trainings = append(trainings, privacy.Recipe{Population: 1, Cohort: 1, NoiseMultiplier: 1, Sampling: privacy.NoSampling})
	}
	all, err := privacy.Compose(trainings, r.Delta)
	if err != nil {
		t.Error(r.ID, err)
	}
	return float64(all.EpsilonProved), float64(all.EpsilonRenyi), true
}

// Every epsilon of the accountant is at least the true one, and above it by at most the tolerance.
func TestProvedEpsilonsAreSoundAndTight(t *testing.T) {
	t.Parallel()
	recipes, _ := corpus(t)
	families := make(map[string][]recipe)
	for _, r := range recipes {
		families[r.family()] = append(families[r.family()], r)
	}
	for name, members := range families {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			supported := 0
			for _, r := range members {
				got, renyi, ok := r.proved(t)
				if !ok {
					continue
				}
				supported++
				lower, upper := infinite(r.Lower), infinite(r.Upper)
				if !(got >= lower*(1-rounding)) || renyi < lower*(1-rounding) {
					t.Errorf("%s: proved %v, by Rényi divergences %v: expected at least %v", r.ID, got, renyi, lower)
				}
				if got > upper*(1+r.Tolerance+rounding) {
					t.Errorf("%s: proved %v: expected at most %v and %v of it", r.ID, got, upper, r.Tolerance)
				}
			}
			t.Logf("%d of %d supported", supported, len(members))
		})
	}
}

// The lower bound by loss distributions is a cost that data reach, so it is at most the true epsilon.
func TestAttainedEpsilonsAreAtMostTheTrueOnes(t *testing.T) {
	t.Parallel()
	recipes, _ := corpus(t)
	n := 0
	for _, r := range recipes {
		if len(r.Steps) != 1 || r.Group > 1 || r.Steps[0].Sampling == nil {
			continue
		}
		training, ok := r.Steps[0].training(r.Neighbours, 1)
		if !ok || training.Sampling.Neighbouring() != r.Neighbours || training.Tree != nil {
			continue
		}
		n++
		training.Delta, training.LossDistribution = r.Delta, true
		report, err := privacy.Account(training)
		if err != nil {
			t.Fatal(r.ID, err)
		}
		interval, upper := report.LossDistribution, infinite(r.Upper)
		if float64(interval.Lower) > upper*(1+rounding) || float64(report.EpsilonProved) < infinite(r.Lower)*(1-rounding) {
			t.Errorf("%s: from %v to %v, proved %v: expected to hold part of %v to %v", r.ID, interval.Lower, interval.Upper, report.EpsilonProved, infinite(r.Lower), upper)
		}
	}
	if n < 100 {
		t.Errorf("only %d recipes have such a bound", n)
	}
}

// The page lists the printed epsilons that are below their interval, with the interval.
func TestThePageListsPublishedEpsilonsThatAreUnsound(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../../docs/method/epsilons.md"))(t)
	recipes, _ := corpus(t)
	unsound := 0
	for _, r := range recipes {
		for by, printed := range r.Published {
			if printed >= infinite(r.Lower)*(1-rounding) {
				continue
			}
			unsound++
			interval := fmt.Sprintf("%#.4g to %#.4g", *r.Lower, *r.Upper)
			if *r.Upper < *r.Lower*(1+rounding) {
				interval = fmt.Sprintf("%#.4g", *r.Lower)
			}
			if digits := fmt.Sprintf("%.4g", printed); !strings.Contains(string(page), digits) || !strings.Contains(string(page), interval) {
				t.Errorf("%s, %s: docs/method/epsilons.md lacks %s or %s", r.ID, by, digits, interval)
			}
		}
	}
	if unsound < 10 || !strings.Contains(string(page), fmt.Sprintf("has %d recipes", len(recipes))) {
		t.Errorf("%d recipes, %d unsound: expected both on the page", len(recipes), unsound)
	}
}

// generate.py computes the same recipes, and the same intervals but for rounding. A million rounds magnify the rounding
// of NumPy's logarithms, which depends on the processor: the end of an interval may move by a thousandth of its width.
func TestRecipesAreGeneratedElsewhere(t *testing.T) {
	t.Parallel()
	python, file := testserver.Python(t, "mpmath, numpy, scipy"), filepath.Join(t.TempDir(), "recipes.json")
	args := []string{"generate.py", file}
	if !taskstest.Whole() {
		args = append(args, "gaussians", "discrete", "correlated", "shuffles", "laplaces") // the others take minutes
	}
	if out, err := exec.CommandContext(t.Context(), python, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	recipes, _ := corpus(t)
	again, _ := readCorpus(t, file)
	if len(again) == 0 || taskstest.Whole() && len(again) != len(recipes) {
		t.Fatalf("%d recipes, and %d generated", len(recipes), len(again))
	}
	generated := make(map[string]recipe)
	for _, r := range again {
		generated[r.ID] = r
	}
	recipes = slices.DeleteFunc(recipes, func(r recipe) bool { return generated[r.ID].ID == "" })
	if len(recipes) != len(generated) {
		t.Fatalf("%d of %d generated recipes have names of the corpus", len(recipes), len(generated))
	}
	for _, r := range recipes {
		g := generated[r.ID]
		width := 0.0
		if r.Upper != nil {
			width = *r.Upper - *r.Lower
		}
		for end, pair := range map[string][2]float64{"lower": {infinite(r.Lower), infinite(g.Lower)}, "upper": {infinite(r.Upper), infinite(g.Upper)}} {
			if a, b := pair[0], pair[1]; a != b && math.Abs(a-b) > 1e-7*math.Abs(a)+1e-3*width {
				t.Errorf("%s: %s is %v, and %v generated", r.ID, end, a, b)
			}
		}
		g.Lower, g.Upper = r.Lower, r.Upper
		if !reflect.DeepEqual(r, g) {
			t.Errorf("recipe %+v, and %+v generated", r, g)
		}
	}
}

// Others read the file, so it keeps its form.
func TestRecipesAreWellFormed(t *testing.T) {
	t.Parallel()
	recipes, methods := corpus(t)
	seen := make(map[string]bool)
	for _, r := range recipes {
		lower, upper := infinite(r.Lower), infinite(r.Upper)
		if seen[r.ID] || methods[r.Method] == "" || len(r.Steps) == 0 || !(r.Delta >= 0 && r.Delta < 1) || !(lower >= 0 && lower <= upper) || !(r.Tolerance > 0) {
			t.Errorf("%+v is there twice, or has a field out of range", r)
		}
		seen[r.ID] = true
	}
	if len(recipes) < 400 {
		t.Errorf("%d recipes: expected at least 400", len(recipes))
	}
}
