package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/testserver"
	"coalmine/privacy"
	"coalmine/workflows/forecast"
)

// account runs the command and returns its exit code and output.
func account(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return coalmine(t, append([]string{"account"}, args...)...)
}

// printed is a value as the papers print it, with the proved epsilon beside it,
// which is the theorem's at half the noise, and by loss distributions.
type printed struct {
	population, cohort, rounds int
	z, delta                   float64
	epsilon, renyi, proved     string
}

// papersValues are those of Thakkar et al. 2020 (the first two) and Augenstein et
// al. 2020, as docs/privacy.md lists them.
var papersValues = []printed{
	{392_000, 5_000, 7_840, 1, 1e-7, "18.8", "154", "71.70"},
	{392_000, 5_000, 784, 1, 1e-7, "5.6", "29.9", "20.85"},
	{250_000, 1_000, 1_000, 1, 4.00e-8, "2.38", "18.8", "10.56"},
	{1_250_000, 1_000, 1_000, 1, 8.00e-9, "1.48", "9.51", "5.79"},
	{500_000, 1_000, 1_000, 1, 2.00e-8, "1.79", "10.8", "7.64"},
	{1_708_824, 1_000, 1_000, 1, 5.85e-9, "1.47", "8.54", "5.39"},
	{1_964_706, 1_000, 1_000, 1, 5.09e-9, "1.40", "7.66", "5.23"},
	{2_000_000, 1_000, 1_000, 1, 5.00e-9, "1.39", "7.58", "5.21"},
	{1_930_588, 1_000, 1_000, 1, 5.18e-9, "1.40", "7.75", "5.25"},
	{342_477, 5_000, 2_000, 1, 2.92e-6, "9.22", "58.8", "32.12"},
	{425, 10, 1_000, 0.01, 2.35e-3, "9.99e+06", "2.02e+07", "7.61e+05"},
	{2_125, 10, 1_000, 0.01, 4.71e-4, "9.99e+06", "2.02e+07", "2.61e+05"},
	{850, 10, 1_000, 0.01, 1.18e-3, "9.99e+06", "2.02e+07", "4.62e+05"},
	{2_905, 10, 1_000, 0.01, 3.44e-4, "9.99e+06", "2.02e+07", "2.21e+05"},
	{3_340, 10, 1_000, 0.01, 2.99e-4, "9.99e+06", "2.02e+07", "2.02e+05"},
	{3_400, 10, 1_000, 0.01, 2.94e-4, "9.99e+06", "2.02e+07", "2.01e+05"},
	{3_282, 10, 1_000, 0.01, 3.05e-4, "9.99e+06", "2.02e+07", "2.19e+05"},
}

func TestAccountPrintsThePapersValues(t *testing.T) {
	t.Parallel()
	for _, v := range papersValues {
		t.Run(fmt.Sprintf("%d of %d for %d rounds", v.cohort, v.population, v.rounds), func(t *testing.T) {
			t.Parallel()
			code, out, stderr := account(t, "--population", fmt.Sprint(v.population), "--cohort", fmt.Sprint(v.cohort),
				"--rounds", fmt.Sprint(v.rounds), "--noise-multiplier", fmt.Sprint(v.z), "--delta", fmt.Sprint(v.delta),
				"--sampling", "fixed-size", "--conversion", "classic", "--json")
			var r privacy.Report
			if err := json.Unmarshal([]byte(out), &r); code != exitDone || err != nil {
				t.Fatalf("exit status %d, %v: %s", code, err, stderr)
			}
			if got := likePrinted(float64(r.Epsilon), v.epsilon); got != v.epsilon {
				t.Errorf("epsilon is %s, the paper prints %s", got, v.epsilon)
			}
			if got := likePrinted(float64(r.EpsilonRenyi), v.renyi); got != v.renyi {
				t.Errorf("epsilon_renyi is %s, want %s", got, v.renyi)
			}
			if got := likePrinted(float64(r.EpsilonProved), v.proved); got != v.proved || r.AccountantProved != privacy.PLD {
				t.Errorf("epsilon_proved is %s by %s, want %s", got, r.AccountantProved, v.proved)
			}
			if r.Sigma != v.z || r.SigmaProved != v.z/2 || r.Neighbouring != privacy.ReplaceOne || r.Order < 2 || r.Delta != v.delta {
				t.Errorf("report %+v", r)
			}
		})
	}
}

// likePrinted rounds a value to the digits that a text has.
func likePrinted(x float64, text string) string {
	if strings.Contains(text, "e") {
		return strconv.FormatFloat(x, 'e', 2, 64)
	}
	_, decimals, _ := strings.Cut(text, ".")
	return strconv.FormatFloat(x, 'f', len(decimals), 64)
}

func TestAccountRejectsInvalidRecipes(t *testing.T) {
	t.Parallel()
	recipe := func(also ...string) []string {
		return append([]string{"--population=392000", "--cohort=5000", "--rounds=784", "--noise-multiplier=1", "--delta=1e-7"}, also...)
	}
	noise := func(also ...string) []string {
		return append([]string{"--population=392000", "--cohort=5000", "--rounds=784", "--delta=1e-7"}, also...)
	}
	rounds := func(also ...string) []string {
		return append([]string{"--population=392000", "--cohort=5000", "--delta=1e-7", "--solve=rounds"}, also...)
	}
	for want, args := range map[string][]string{
		"noise multiplier -1: expected a positive number":                    recipe("--noise-multiplier=-1"),
		"delta 0: expected a number above 0":                                 recipe("--delta=0"),
		"delta 1: expected a number above 0":                                 recipe("--delta=1"),
		"cohort 400000 is above the population of 392000":                    recipe("--cohort=400000"),
		"rounds -1: expected 0 or more":                                      recipe("--rounds=-1"),
		`--unit "rec": expected balanced user, record, synthetic user, user`: recipe("--unit=rec"),
		`sampling "often": expected one of fixed-size`:                       recipe("--sampling=often"),
		`conversion "none": expected one of classic`:                         recipe("--conversion=none"),
		"epsilon 1e-09 at delta 1e-07 cannot be reached":                     noise("--target-epsilon=1e-9"),
		"target epsilon 0: expected a positive number":                       noise("--target-epsilon=0"),
		"target epsilon -3: expected a positive number":                      noise("--target-epsilon=-3"),
		"one round costs epsilon":                                            rounds("--target-epsilon=0.1", "--noise-multiplier=0.1"),
		"--delta with --target-epsilon and --solve delta":                    recipe("--target-epsilon=3", "--solve=delta"),
		"--participations needs --tree":                                      recipe("--participations=3"),
		"257 participations of a user":                                       recipe("--tree", "--participations=257"),
		"--group 0: expected at least 1 user":                                recipe("--group=0"),
		"a group of 392001 of 392000 users":                                  recipe("--group=392001"),
		"--trade-off is empty":                                               recipe("--trade-off="),
		`--solve "luck": expected noise, rounds, cohort or delta`:            recipe("--target-epsilon=1", "--solve=luck"),
		"--solve needs --target-epsilon":                                     recipe("--solve=rounds"),
		"--scale-population needs --scale-cohort":                            recipe("--scale-population=9"),
		"--tree with --sampling, --pld":                                      recipe("--tree", "--sampling=poisson"),
		"784 rounds of 5000 users are more than one epoch":                   recipe("--tree"),
		"a plot of epsilon against rounds needs":                             recipe("--plot=" + filepath.Join(t.TempDir(), "one.svg")),
		"--rounds with --target-epsilon and --solve rounds":                  rounds("--target-epsilon=8", "--noise-multiplier=1", "--rounds=9"),
		"--noise-multiplier with --target-epsilon and --solve noise":         recipe("--target-epsilon=8"),
		"--scale-cohort with --target-epsilon and --solve cohort":            recipe("--target-epsilon=8", "--solve=cohort", "--scale-cohort=9"),
		"scaling up needs a noise multiplier":                                noise("--target-epsilon=8", "--scale-cohort=9"),
		"--scale-cohort 0: expected at least 1":                              recipe("--scale-cohort=0"),
		"--scale-population -1: expected at least 1":                         recipe("--scale-cohort=9", "--scale-population=-1"),
		"cohort 0: expected at least 1":                                      recipe("--cohort=0", "--scale-cohort=9"),
		"--plot is empty":                                                    recipe("--plot="),
		"--accountant is empty":                                              recipe("--accountant="),
		`accountant "pld": expected tightest, rdp, rdp-pair or papers`:       recipe("--accountant=pld"),
		"--sampling is empty":                                                recipe("--sampling="),
		"--conversion is empty":                                              recipe("--conversion="),
		"--tree with --clip-count-noise":                                     recipe("--tree", "--clip-count-noise=3"),
		"clip quantile count noise 0: expected a positive":                   recipe("--clip-count-noise=0"),
		"uses up the whole budget; raise the count noise above 0.5":          recipe("--clip-count-noise=0.5"),
		"on the count, standard deviation 1, uses up":                        noise("--clip-count-noise=1", "--target-epsilon=1"),
		`--rounds "1e3": expected whole numbers, separated by commas`:        recipe("--rounds=1e3"),
		`--delta "small": expected a number`:                                 recipe("--delta=small"),
		`--cohort "9e99": expected a whole number`:                           recipe("--cohort=9e99"),
		`"1e999": expected a number of less magnitude`:                       recipe("--noise-multiplier=1e999"),
		"noise multiplier NaN: expected a positive":                          recipe("--noise-multiplier=nan"),
		"delta NaN: expected a number above 0":                               recipe("--delta=nan"),
		"target epsilon +Inf: expected a positive number":                    noise("--target-epsilon=inf"),
		"with the tree no user may take part twice":                          {"--tree", "--population=9", "--cohort=3", "--rounds=4", "--noise-multiplier=1", "--delta=0.1"},
		"--rounds is missing":                                                {"--population=9", "--cohort=3", "--noise-multiplier=1", "--delta=0.1"},
		"--noise-multiplier is missing":                                      {"--population=9", "--cohort=3", "--rounds=3", "--delta=0.1"},
		`required flag(s) "delta" not set`:                                   {"--population=9", "--cohort=3", "--rounds=3", "--noise-multiplier=1"},
	} {
		refuses(t, want, append([]string{"account"}, args...)...)
	}
}

func TestAccountWithoutNoiseReportsInfiniteEpsilon(t *testing.T) {
	t.Parallel()
	args := []string{"--population=1000", "--cohort=10", "--rounds=5", "--noise-multiplier=0", "--delta=1e-5"}
	if code, out, _ := account(t, args...); code != exitDone || !strings.Contains(out, "without noise there is no bound: epsilon is infinite") {
		t.Errorf("exit status %d: %s", code, out)
	}
	_, out, _ := account(t, append(args, "--json")...)
	for _, want := range []string{`"epsilon": null`, `"epsilon_proved": null`, `"infinite": true`} {
		if !strings.Contains(out, want) {
			t.Errorf("the JSON lacks %s: %s", want, out)
		}
	}
}

func TestAccountSweepsAndPlots(t *testing.T) {
	t.Parallel()
	plot := filepath.Join(t.TempDir(), "epsilon.svg")
	args := []string{"--population=392000", "--cohort=5000", "--rounds=100,1000,10000", "--noise-multiplier=1", "--delta=1e-7", "--plot", plot}
	code, out, stderr := account(t, args...)
	if code != exitDone {
		t.Fatal(stderr)
	}
	lines := strings.Split(out, "\n")
	for i, rounds := range []string{"100", "1000", "10000"} {
		if fields := strings.Fields(lines[i+1]); len(fields) != 10 || fields[0] != rounds {
			t.Errorf("line %d of the table is %q, want that of %s rounds with both epsilons", i+1, lines[i+1], rounds)
		}
	}
	if !strings.Contains(out, "sigma             0.5 for what is proved, 1 for the papers' convention") {
		t.Errorf("the table does not say what stands behind its epsilons: %s", out)
	}
	wellFormed(t, plot)

	_, out, _ = account(t, append(args, "--json")...)
	var sweep struct{ Reports []privacy.Report }
	if err := json.Unmarshal([]byte(out), &sweep); err != nil || len(sweep.Reports) != 3 {
		t.Fatalf("%d reports, %v", len(sweep.Reports), err)
	}
	for i := range sweep.Reports[1:] {
		if before, after := sweep.Reports[i], sweep.Reports[i+1]; !(after.EpsilonProved > before.EpsilonProved) {
			t.Errorf("epsilon_proved does not grow: %v, then %v", before.EpsilonProved, after.EpsilonProved)
		}
	}
}

func wellFormed(t *testing.T, path string) {
	t.Helper()
	data := contentOf(t, path)
	for d := xml.NewDecoder(strings.NewReader(data)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s is not XML: %v", path, err)
		}
	}
}

// The solution stays within the target, and a slightly larger one does not.
func TestAccountSolvesForTheProvedEpsilon(t *testing.T) {
	t.Parallel()
	recipe := []string{"--population=392000", "--cohort=5000", "--delta=1e-7", "--target-epsilon=8", "--json"}
	solved := func(also ...string) privacy.Report {
		code, out, stderr := account(t, append(recipe, also...)...)
		var r privacy.Report
		if err := json.Unmarshal([]byte(out), &r); code != exitDone || err != nil {
			t.Fatalf("%v: exit status %d, %v, %s", also, code, err, stderr)
		}
		return r
	}
	noise := solved("--rounds=784")
	rounds := solved("--solve=rounds", fmt.Sprint("--noise-multiplier=", noise.NoiseMultiplier))
	cohort := solved("--solve=cohort", "--rounds=784", "--noise-multiplier=1", "--cohort=3000")
	for what, r := range map[string]privacy.Report{"noise": noise, "rounds": rounds, "cohort": cohort} {
		if r.EpsilonProved > 8 || r.EpsilonProved < 7.95 {
			t.Errorf("--solve %s ends at epsilon_proved %v, want 8 or a little less", what, r.EpsilonProved)
		}
	}
	if rounds.Rounds < 784 || rounds.Rounds > 786 {
		t.Errorf("%d rounds fit at the noise that was found for 784", rounds.Rounds)
	}
}

// In any order of the rounds, the longest training of a sweep stays within.
func TestAccountSolvesSweepForLongestTraining(t *testing.T) {
	t.Parallel()
	for _, solve := range [][]string{{"--solve=noise"}, {"--solve=cohort", "--noise-multiplier=1"}} {
		code, out, stderr := account(t, append(solve, "--population=392000", "--cohort=3000", "--delta=1e-7", "--target-epsilon=8",
			"--rounds=784,100", "--json")...)
		var sweep struct{ Reports []privacy.Report }
		if err := json.Unmarshal([]byte(out), &sweep); code != exitDone || err != nil || len(sweep.Reports) != 2 {
			t.Fatalf("%v: exit status %d, %v, %s", solve, code, err, stderr)
		}
		if most := sweep.Reports[0]; most.EpsilonProved > 8 || most.EpsilonProved < 7.95 {
			t.Errorf("%v: %d rounds end at epsilon_proved %v, want 8 or a little less", solve, most.Rounds, most.EpsilonProved)
		}
	}
}

// Kairouz et al. 2021 print epsilon below 19.74 for StackOverflow; 1,600 rounds
// have 11 nodes above a leaf.
func TestAccountCountsTreeAggregation(t *testing.T) {
	t.Parallel()
	args := []string{"--tree", "--population=342477", "--cohort=100", "--rounds=1600", "--noise-multiplier=1.13", "--delta=1e-6"}
	_, out, stderr := account(t, append(args, "--json")...)
	var r privacy.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err, stderr)
	}
	if likePrinted(float64(r.Epsilon), "19.74") != "19.74" || r.EpsilonRenyi != r.Epsilon || !(r.EpsilonProved < r.Epsilon) || r.Neighbouring != privacy.ZeroOutOne {
		t.Errorf("report %+v, want epsilon 19.74, and less proved", r)
	}
	if got := likePrinted(float64(r.Rho), "4.307"); got != "4.307" {
		t.Errorf("rho is %s, want 11/(2 x 1.13^2) = 4.307", got)
	}
	if code, out, _ := account(t, append(args, "--noise-multiplier=0")...); code != exitDone || !strings.Contains(out, "epsilon is infinite") {
		t.Errorf("exit status %d: %s", code, out)
	}
}

// At equal noise per user, a cohort of 10 with 0.01 is one of 1,000 with 1.
func TestAccountScalesASimulationUp(t *testing.T) {
	t.Parallel()
	_, out, stderr := account(t, "--population=3400", "--cohort=10", "--rounds=1000", "--noise-multiplier=0.01", "--delta=5e-9",
		"--scale-population=2000000", "--scale-cohort=1000", "--json")
	var r privacy.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err, stderr)
	}
	if likePrinted(float64(r.Epsilon), "1.39") != "1.39" || r.Cohort != 1000 || r.NoiseMultiplier != 1 {
		t.Errorf("the realistic training is %+v, want epsilon 1.39 as Augenstein et al. print", r)
	}
}

// A target that nothing reaches is not a number of rounds.
func TestAccountReportsLimitOfRoundsSearch(t *testing.T) {
	t.Parallel()
	args := []string{"--population=392000", "--cohort=5000", "--delta=1e-7", "--noise-multiplier=1", "--target-epsilon=1e300", "--solve=rounds"}
	if code, out, _ := account(t, args...); code != exitDone || !strings.Contains(out, "rounds            at least 2^40 stay within the target") {
		t.Errorf("exit status %d: %s", code, out)
	}
	if _, out, _ := account(t, append(args, "--json")...); !strings.Contains(out, `"rounds_at_least": true`) {
		t.Errorf("the JSON does not say so: %s", out)
	}
}

// A least noise or delta at which the search ends is a bound from above alone.
func TestAccountReportsLimitOfNoiseAndDeltaSearch(t *testing.T) {
	t.Parallel()
	recipe := []string{"--population=1000", "--cohort=10", "--rounds=1"}
	for field, args := range map[string][]string{
		"delta":            {"--noise-multiplier=100", "--target-epsilon=60", "--solve=delta"},
		"noise multiplier": {"--delta=0.1", "--target-epsilon=1e9", "--solve=noise"},
	} {
		args = append(args, recipe...)
		code, out, stderr := account(t, args...)
		if code != exitDone || !strings.Contains(out, " or less stays within the target: the search ends here") {
			t.Errorf("%s: exit status %d: %s%s", field, code, out, stderr)
		}
		key := strings.ReplaceAll(field, " ", "_") + `_at_most": true`
		if _, out, _ := account(t, append(args, "--json")...); !strings.Contains(out, key) {
			t.Errorf("the JSON lacks %s: %s", key, out)
		}
	}
}

// Without noise nothing is proved, of one or of a group.
func TestAccountProvesNothingWithoutNoise(t *testing.T) {
	t.Parallel()
	args := []string{"--population=1000", "--cohort=10", "--rounds=1", "--noise-multiplier=0", "--delta=1e-7", "--group=3"}
	_, out, stderr := account(t, args...)
	if !strings.Contains(out, "group             epsilon infinite: nothing is proved of 3 users together after 1 round, where one has infinite\n") {
		t.Errorf("%s%s", out, stderr)
	}
	if _, out, _ := account(t, append(args, "--json")...); strings.Contains(out, `"theorem"`) {
		t.Errorf("the JSON names a theorem: %s", out)
	}
}

// The largest population that a flag takes has a cohort that fits.
func TestAccountSolvesCohortOfLargestPopulation(t *testing.T) {
	t.Parallel()
	code, out, stderr := account(t, "--population=9223372036854775807", "--cohort=10", "--rounds=10", "--delta=1e-7",
		"--noise-multiplier=0.01", "--target-epsilon=1", "--solve=cohort", "--json")
	var r privacy.Report
	if err := json.Unmarshal([]byte(out), &r); code != exitDone || err != nil || r.EpsilonProved > 1 {
		t.Errorf("exit status %d, %v, %s, %s", code, err, out, stderr)
	}
}

// An adaptive cell is printed with the noise that its updates get; epsilon is
// that of the total.
func TestAccountReproducesAdaptiveClipping(t *testing.T) {
	t.Parallel()
	recipe := []string{"--population=392000", "--cohort=5000", "--rounds=784", "--noise-multiplier=1", "--delta=1e-7", "--json"}
	count := func(also ...string) (r privacy.Report) {
		_, out, stderr := account(t, append(recipe, also...)...)
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err, stderr)
		}
		return r
	}
	fixed, adaptive := count(), count("--clip-count-noise=5")
	if adaptive.Epsilon != fixed.Epsilon || adaptive.EpsilonProved != fixed.EpsilonProved {
		t.Errorf("epsilon %v, %v proved; with a fixed clip norm %v, %v", adaptive.Epsilon, adaptive.EpsilonProved, fixed.Epsilon, fixed.EpsilonProved)
	}
	if got := likePrinted(adaptive.UpdateNoise, "1.005038"); got != "1.005038" {
		t.Errorf("the updates get noise %s, want (1 - 1/100)^(-1/2) = 1.005038", got)
	}
	// Twice the cohort at equal noise per user has twice the noise on the count.
	if large := count("--clip-count-noise=5", "--scale-cohort=10000"); likePrinted(large.UpdateNoise, "2.010076") != "2.010076" {
		t.Errorf("the updates of twice the cohort get noise %v, want twice 1.005038", large.UpdateNoise)
	}
}

// With Poisson cohorts, and with the tree, epsilon is no convention: it is proved,
// and is labelled so, in the text and in the picture.
func TestAccountLabelsProvedEpsilons(t *testing.T) {
	t.Parallel()
	recipe := []string{"--population=10000", "--cohort=10", "--rounds=100,1000", "--noise-multiplier=1", "--delta=1e-5"}
	for mechanism, relation := range map[string]privacy.Neighbouring{"--sampling=poisson": privacy.AddOrRemoveOne, "--tree": privacy.ZeroOutOne} {
		plot := filepath.Join(t.TempDir(), "epsilon.svg")
		code, out, stderr := account(t, append(recipe, mechanism, "--plot", plot)...)
		if code != exitDone || strings.Contains(out, "convention") || !strings.Contains(out, "1 for all epsilons") {
			t.Errorf("%s: exit status %d, %s%s", mechanism, code, out, stderr)
		}
		picture, err := os.ReadFile(plot)
		if err != nil || strings.Contains(string(picture), "convention") || strings.Count(string(picture), `stroke="#0072b2"`) == 0 ||
			!strings.Contains(string(picture), "proved, "+string(relation)) {
			t.Errorf("%s: %v, picture %s", mechanism, err, picture)
		}
	}
}

func TestFailedPlotKeepsExistingFile(t *testing.T) {
	t.Parallel()
	plot := filepath.Join(t.TempDir(), "epsilon.svg")
	writeFile(t, plot, "older")
	code, _, _ := account(t, "--population=1000", "--cohort=10", "--rounds=5,50", "--noise-multiplier=0", "--delta=1e-5", "--plot", plot)
	if data, err := os.ReadFile(plot); code != exitUsage || err != nil || string(data) != "older" {
		t.Errorf("exit status %d, %v, the file holds %q", code, err, data)
	}
}

// composedFile is a file of recipes under three relations.
func composedFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "recipes.yaml")
	text := `- {population: 392000, cohort: 5000, rounds: 400, noise_multiplier: 1}
- {population: 410000, cohort: 8000, rounds: 300, noise_multiplier: 1.2, count_noise: 400}
- {population: 410000, cohort: 6000, rounds: 500, noise_multiplier: 0.8, sampling: poisson}
- {name: DP-FTRL, population: 500000, cohort: 500, rounds: 2000, noise_multiplier: 7, sampling: tree, participations: 4, separation: 400}
`
	writeFile(t, file, text)
	return file
}

// An independent composition on grids of losses, rounded down and up, has 44.585 to 44.660.
func TestAccountComposesRecipesOfAFile(t *testing.T) {
	t.Parallel()
	file := composedFile(t)
	var answer forecast.PrivacyAnswer
	decodeJSON(t, prints(t, "account", "--compose", file, "--delta", "1e-7", "--json"), &answer)
	together := answer.Together[0]
	if got := float64(together.EpsilonProved); got < 44.585 || got > 44.660 || together.Neighbouring != privacy.ReplaceOne || len(answer.Trainings) != 4 {
		t.Errorf("%+v", together)
	}
	table := string(prints(t, "account", "--compose", file, "--delta", "1e-7"))
	if !strings.Contains(table, "4 (DP-FTRL)") || !strings.Contains(table, "all 4 together") {
		t.Errorf("table:\n%s", table)
	}
	curve := filepath.Join(t.TempDir(), "errors.svg")
	decodeJSON(t, prints(t, "account", "--compose", file, "--target-epsilon", "50", "--solve", "delta", "--trade-off", curve, "--json"), &answer)
	if together := answer.Together[0]; float64(together.EpsilonProved) > 50 || together.Delta > 1e-7 || len(answer.TradeOff) < 20 {
		t.Errorf("%+v, errors %v", together, answer.TradeOff)
	}
	wellFormed(t, curve)
}

func TestAccountRejectsInvalidComposeFlags(t *testing.T) {
	t.Parallel()
	file := composedFile(t)
	for want, args := range map[string][]string{
		`required flag(s) "delta" not set`:                                   {"--compose", file},
		"--rounds with --compose, whose file has the recipes":                {"--compose", file, "--rounds=3", "--delta=1e-7"},
		"expected --target-epsilon with --solve delta":                       {"--compose", file, "--target-epsilon=3"},
		"--delta with --target-epsilon and --solve delta, which computes it": {"--compose", file, "--target-epsilon=3", "--solve=delta", "--delta=1e-7"},
		"no such file":                     {"--compose", file + ".not", "--delta=1e-7"},
		"--compose is empty":               {"--compose=", "--delta=1e-7"},
		"--compose with a RUN":             {"latest", "--compose", file},
		"ends in .svg, .pdf, .png or .csv": {"--compose", file, "--delta=1e-7", "--trade-off=errors.gif"},
		"delta 7: expected":                {"--compose", file, "--delta=7"},
		"conversion \"no\": exp":           {"--compose", file, "--delta=1e-7", "--conversion=no"},
	} {
		fails(t, want, append([]string{"account"}, args...)...)
	}
}

func TestAccountReportsDeltaAndTradeOff(t *testing.T) {
	t.Parallel()
	numbers := filepath.Join(t.TempDir(), "errors.csv")
	var report struct {
		privacy.Report
		TradeOff []privacy.ErrorRates `json:"trade_off"`
	}
	decodeJSON(t, prints(t, "account", "--population=392000", "--cohort=5000", "--rounds=784", "--noise-multiplier=1",
		"--target-epsilon=20", "--solve=delta", "--trade-off", numbers, "--json"), &report)
	if report.EpsilonProved > 20 || report.EpsilonProved < 19.99 || report.Rho != 784*2 || report.Mu != 56 || len(report.TradeOff) < 20 {
		t.Errorf("%+v", report)
	}
	if text, err := os.ReadFile(numbers); err != nil || strings.Count(string(text), "\n") != len(report.TradeOff)+1 {
		t.Errorf("%v:\n%s", err, text)
	}
	table := string(prints(t, "account", "--tree", "--population=50000", "--cohort=100", "--rounds=1600", "--noise-multiplier=7", "--participations=4",
		"--separation=400", "--target-epsilon=6", "--solve=delta"))
	if !strings.Contains(table, "at most 4 rounds, each 400 or more after the one before") || !strings.Contains(table, "\nmu  ") {
		t.Errorf("table:\n%s", table)
	}
}

// The first interrupt ends the command in the middle of every computation.
func TestAccountStopsAtTheFirstInterrupt(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	ended := make(chan struct{})
	defer close(ended)
	if _, err := unlessInterrupted(ctx, func() (int, error) { <-ended; return 0, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	var out, stderr bytes.Buffer
	args := []string{"account", "--population=1000000000000", "--cohort=10", "--rounds=1000000", "--noise-multiplier=1", "--target-epsilon=1e9", "--solve=delta"}
	if code := execute(ctx, args, &out, &stderr); code == exitDone || out.Len() > 0 {
		t.Errorf("exit status %d, output %q", code, out.String())
	}
}

// run.py finds every epsilon of the command in the corpus sound, and none too loose.
func TestConformanceCorpusPassesElsewhere(t *testing.T) {
	t.Parallel()
	python, dir := testserver.Python(t, "json"), "../../privacy/conformance/"
	run := exec.CommandContext(t.Context(), python, dir+"run.py", python, dir+"coalmine.py")
	run.Env = append(os.Environ(), asCommand+"=1", "COALMINE="+os.Args[0])
	out, err := run.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if summary := lines[len(lines)-1]; err != nil || strings.Contains(summary, "too loose") || !strings.HasSuffix(summary, "368 sound, of 481") {
		t.Errorf("%v: %s", err, out)
	}
}
