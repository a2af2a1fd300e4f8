package forecast

import (
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
)

const fourRecipes = `# years of a fleet
- {population: 392000, cohort: 5000, rounds: 400, noise_multiplier: 1}
- {population: 410000, cohort: 8000, rounds: 300, noise_multiplier: 1.2, count_noise: 400}
- {population: 410000, cohort: 6000, rounds: 500, noise_multiplier: 0.8, sampling: poisson}
- name: DP-FTRL
  population: 500000
  cohort: 500
  rounds: 2000
  noise_multiplier: 7
  sampling: tree
  participations: 4
  separation: 400
`

func read(t *testing.T, text string) []Training {
	t.Helper()
	return must.Get(ReadRecipes("fleet.yaml", []byte(text), privacy.Recipe{Delta: 1e-7, Unit: "device"}))(t)
}

// The recipes of a file cost the same as those of Go, each alone and all together.
func TestRecipeFileIsComposed(t *testing.T) {
	t.Parallel()
	want := []privacy.Recipe{
		{Population: 392_000, Cohort: 5000, Rounds: 400, NoiseMultiplier: 1},
		{Population: 410_000, Cohort: 8000, Rounds: 300, NoiseMultiplier: 1.2, ClipQuantile: privacy.CountedClipping(400)},
		{Population: 410_000, Cohort: 6000, Rounds: 500, NoiseMultiplier: 0.8, Sampling: privacy.Poisson},
		{Population: 500_000, Cohort: 500, Rounds: 2000, NoiseMultiplier: 7, Tree: &privacy.Participations{Times: 4, Separation: 400}},
	}
	trainings := read(t, fourRecipes)
	a := account(t, PrivacyQuestion{Delta: 1e-7}, trainings...)
	for i := range want {
		want[i].Delta, want[i].Unit = 1e-7, "device"
		report, err := privacy.Account(want[i])
		if got := a.Trainings[i].Scales[0]; err != nil || got.EpsilonProved != report.EpsilonProved || got.Unit != "device" {
			t.Errorf("recipe %d: epsilon_proved %v, want %v, %v", i+1, got.EpsilonProved, report.EpsilonProved, err)
		}
	}
	together, err := privacy.Compose(want, 1e-7)
	if err != nil || a.Together[0].Composition != together || trainings[3].Label != "DP-FTRL" || trainings[1].Label != "fixed-size" {
		t.Errorf("%+v of %v, want %+v, %v", a.Together, trainings, together, err)
	}
	if notes := strings.Join(a.Notes, " "); strings.Contains(notes, "noise from a seed") {
		t.Errorf("recipes of a file have no seed: %s", notes)
	}
}

// Correlated noise is described as in an experiment, with its numbers.
func TestRecipeFileWithCorrelatedNoiseIsComposed(t *testing.T) {
	t.Parallel()
	trainings := read(t, `- {population: 20, cohort: 1, rounds: 40, noise_multiplier: 3, sampling: separated, separation: 20, participations: 2,
   mechanism: {kind: blt, scales: [0.2], decays: [0.9]}}`)
	report, err := privacy.Account(privacy.Recipe{
		Population: 20, Cohort: 1, Rounds: 40, NoiseMultiplier: 3, Delta: 1e-7, Sampling: privacy.Separated, Separation: 20, Participations: 2,
		Mechanism: &correlated.Mechanism{Kind: correlated.KindBLT, Scales: []float64{0.2}, Decays: []float64{0.9}},
	})
	a := account(t, PrivacyQuestion{Delta: 1e-7}, trainings...)
	if got := a.Trainings[0].Scales[0].EpsilonProved; err != nil || got != report.EpsilonProved || report.Participations != 2 {
		t.Errorf("epsilon_proved %v, want %v for 2 participations, not %d, %v", got, report.EpsilonProved, report.Participations, err)
	}
}

func TestBadRecipeFilesAreRejectedInPlace(t *testing.T) {
	t.Parallel()
	entry := "- {population: 1000, cohort: 10, rounds: 4, noise_multiplier: 1"
	for text, want := range map[string]string{
		"":                          "fleet.yaml has 0 recipes; expected a list",
		"- {popul: 3}":              "fleet.yaml:1:4: unknown field",
		"- {population: many}":      "fleet.yaml:1:16: ",
		"name: none":                "fleet.yaml:1:",
		"- {population: [":          "fleet.yaml:1:",
		entry + ", sampling: lots}": `fleet.yaml: recipe 1: sampling "lots": expected one of`,
		entry + ", separation: 3}":  "fleet.yaml: recipe 1: participations and separation with",
		entry + ", mechanism: {kind: blt, scales: [0.2], decays: [0.9]}}": "fixed-size sampling with correlated noise",
		entry + ", sampling: separated, mechanism: {kind: lots}}":         `mechanism "lots": expected`,
		entry + "}\n- {population: 9}":                                    "fleet.yaml: recipe 2: noise_multiplier is missing",
		entry + ", sampling: tree, count_noise: 1}":                       "recipe 1: count_noise with a tree",
		"- {population: 10, cohort: 11, noise_multiplier: 1}":             "recipe 1: cohort 11 is above the population of 10",
		strings.Repeat("#", 1<<20+1):                                      "expected at most 1048576",
		"! {0}":                                                           "fleet.yaml:1:1: not YAML that can be read",
		strings.Repeat("[", 20_000):                                       "nested more than 32 deep",
		strings.Repeat(entry+"}\n", maxRecipes+1):                         "1001 recipes",
	} {
		if _, err := ReadRecipes("fleet.yaml", []byte(text), privacy.Recipe{Delta: 1e-7}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want %q", text, err, want)
		}
	}
}

func FuzzReadRecipes(f *testing.F) {
	f.Add(fourRecipes)
	f.Add("- {population: 1000, cohort: 10, rounds: 4, noise_multiplier: .nan}")
	f.Add("! {0}")
	f.Add("- &a {population: 1, cohort: 1}\n- *a\n- <<: *a")
	f.Fuzz(func(t *testing.T, text string) {
		trainings, err := ReadRecipes("fleet.yaml", []byte(text), privacy.Recipe{Delta: 1e-7})
		for _, training := range trainings {
			if err == nil && training.Recipe.Validate() != nil {
				t.Errorf("%+v was accepted", training.Recipe)
			}
		}
	})
}
