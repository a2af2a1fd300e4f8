package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/testserver"
	"coalmine/privacy"
	"coalmine/workflows/forecast"
	"coalmine/workflows/results"
)

// Two trainings with noise and one without, of three rounds.
const accountedFile = `
name: accounted
data: {source: %s, vocabulary: {size: 30}, users: {words: 100}}
model: {embedding: 3, units: 4}
training: {rounds: 3, cohort: 4, chunks: 1, privacy: {clip: 0.1, noise_multiplier: 1, delta: 1e-5}}
grid: {axes: {training.privacy.noise_multiplier: [1, 0.8, 0]}}
`

func TestAccountReportsCostsOfRunElsewhere(t *testing.T) {
	t.Parallel()
	home := smallRunOf(t, accountedFile, spendingText())
	// One after another: a data directory has one user at a time.
	t.Run("with its own numbers", func(t *testing.T) { accountsForCells(t, home) })
	t.Run("and says what they mean", func(t *testing.T) { explainsCosts(t, home) })
	t.Run("or says what is wrong", func(t *testing.T) { refusesAccounts(t, home) })
	t.Run("as the theorems give it elsewhere", func(t *testing.T) { recomputesCosts(t, home) })
}

// At the file's delta a cell has the cost in its results, a scale the cost of its
// recipe, and together they cost more than each.
func accountsForCells(t *testing.T, home string) {
	var found results.Results
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &found)
	var answer forecast.PrivacyAnswer
	decodeJSON(t, prints(t, "account", "latest", "--home", home, "--delta", "1e-5", "--scale", "50", "--json"), &answer)
	var own forecast.PrivacyAnswer
	decodeJSON(t, prints(t, "account", "latest", "--home", home, "--json"), &own)
	for i, training := range own.Trainings { // without --delta, at the file's
		if got, want := training.Scales[0], answer.Trainings[i].Scales[0]; got.Delta != 1e-5 || got.EpsilonProved != want.EpsilonProved {
			t.Errorf("%s costs %v proved at delta %v, want %v at the file's 1e-5", training.Cell, got.EpsilonProved, got.Delta, want.EpsilonProved)
		}
	}
	if len(answer.Trainings) != 2 || len(answer.Together) != 2 || len(answer.Unbounded) != 1 || answer.Unbounded[0].Cell != "c03" {
		t.Fatalf("answer %+v", answer)
	}
	for i, training := range answer.Trainings {
		cell, small, scaled := found.Cells[i], training.Scales[0], training.Scales[1]
		if training.Cell != cell.Cell || small.Epsilon != cell.Privacy.Epsilon || small.EpsilonProved != cell.Privacy.EpsilonProved {
			t.Errorf("%s costs %v, %v proved; its results say %v, %v", training.Cell, small.Epsilon, small.EpsilonProved, cell.Privacy.Epsilon, cell.Privacy.EpsilonProved)
		}
		var recipe privacy.Report
		decodeJSON(t, prints(t, "account", "--population", fmt.Sprint(small.Population), "--cohort=4", "--rounds=3", "--delta=1e-5", "--noise-multiplier",
			fmt.Sprint(small.NoiseMultiplier), "--scale-cohort=200", "--scale-population", fmt.Sprint(50*small.Population), "--json"), &recipe)
		if scaled.Epsilon != recipe.Epsilon || scaled.EpsilonProved != recipe.EpsilonProved || scaled.NoiseMultiplier != recipe.NoiseMultiplier {
			t.Errorf("%s at scale 50 costs %v, %v proved; the recipe %v, %v", training.Cell, scaled.Epsilon, scaled.EpsilonProved, recipe.Epsilon, recipe.EpsilonProved)
		}
		if together := answer.Together[1]; !(together.EpsilonProved > scaled.EpsilonProved) || together.Infinite {
			t.Errorf("together %v proved at scale 50, %s alone %v", together.EpsilonProved, training.Cell, scaled.EpsilonProved)
		}
	}
}

func explainsCosts(t *testing.T, home string) {
	text := prints(t, "account", "latest/c01", "latest/c02", "--home", home, "--scale=2,3")
	for _, want := range []string{"c01 (", "all 2 together", "post-processing", "1/(scale x its balanced users)", "several balanced users"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
}

func refusesAccounts(t *testing.T, home string) {
	for want, args := range map[string][]string{
		"c01 is named twice; expected each cell once":       {"latest", "latest/c01"},
		"no cell has a privacy bound: of c03, no noise was": {"latest/c03"},
		`has no cell "c04"`: {"latest/c04"},
		"--rounds with a RUN, whose cells have the recipe":         {"latest", "--rounds=3"},
		"scale 1: expected a whole number of at least 2":           {"latest", "--scale=1"},
		"population 9 without a scale":                             {"latest", "--scale-population=9"},
		"--scale-population 0: expected at least 1 user":           {"latest", "--scale=2", "--scale-population=0"},
		"delta 0: expected a number above 0":                       {"latest", "--delta=0"},
		`conversion "best": expected one of`:                       {"latest", "--conversion=best"},
		"c01 at scale 10: cohort 40 is above the population of 9":  {"latest", "--scale=10", "--scale-population=9"},
		`--scale "x": expected whole numbers, separated by commas`: {"latest", "--scale=x"},
		"--tree with a RUN, whose cells have the recipe: remove":   {"latest", "--tree"},
	} {
		refuses(t, want, append([]string{"account", "--home", home}, args...)...)
	}
}

// docs/checks/check_account.py states the theorems a second time.
func recomputesCosts(t *testing.T, home string) {
	mpmath := testserver.Python(t, "mpmath")
	dir := t.TempDir()
	text := prints(t, "account", "latest", "--home", home, "--scale", "2", "--json")
	writeFile(t, filepath.Join(dir, "account.json"), text)
	runPython(t, dir, mpmath, "-m", "check_account", "account.json")
}

// A scale is about runs; a recipe is scaled by other flags.
func TestAccountRejectsMissingRunOrRecipe(t *testing.T) {
	t.Parallel()
	refuses(t, "--scale needs a RUN", "account", "--population=100", "--cohort=1", "--rounds=1", "--noise-multiplier=1", "--delta=0.1", "--scale=2")
	refuses(t, "coalmine plan own.yaml prints the epsilon of the cells of a file", "account", "own.yaml")
	refuses(t, `required flag(s) "population", "cohort", "delta" not set: a recipe needs them (or name a RUN)`, "account", "--rounds=1")
}
