package experiment_test

import (
	"fmt"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy/correlated"
	"coalmine/workflows/experiment"
)

// ftrl is an experiment with correlated noise, whose training has further lines.
func ftrl(lines string) []byte {
	return fmt.Appendf(nil, `name: ftrl
data: {source: a.jsonl, users: {words: 100}}
canaries: {user_probability: [1/10], example_probability: [1]}
training:
  cohort: 10
  sampling: separated
%s
audit: {}
`, lines)
}

func resolved(t *testing.T, lines string, users int) (*experiment.Training, error) {
	t.Helper()
	spec, err := experiment.Parse("ftrl.yaml", ftrl(lines), experiment.Options{})
	if err != nil {
		return nil, err
	}
	err = spec.Resolve([]experiment.Facts{{Users: users, Examples: 10_000, DistinctWords: 500_000, TestExamples: 1000}})
	return &spec.Cells[0].Experiment.Training, err
}

func TestAbsentMechanismFieldsAreOptimized(t *testing.T) {
	t.Parallel()
	training := must.Get(resolved(t, `  rounds: 90
  privacy: {clip: 1, noise_multiplier: 4, delta: 1e-5, mechanism: {buffers: 2}}`, 305))(t)
	want := must.Get(correlated.OptimizeBLT(correlated.Participation{Rounds: 90, Separation: 30, Times: 3}, 2))(t)
	m := training.Privacy.Mechanism
	if training.Separation != 30 || fmt.Sprint(m.Scales, m.Decays) != fmt.Sprint(want.Scales, want.Decays) {
		t.Errorf("separation %d, scales %v, decays %v; want 30 and %+v", training.Separation, m.Scales, m.Decays, want)
	}
}

func TestGivenMechanismNumbersAreKept(t *testing.T) {
	t.Parallel()
	training := must.Get(resolved(t, `  rounds: 90
  separation: 7
  privacy: {clip: 1, noise_multiplier: 4, delta: 1e-5, mechanism: {kind: banded, bands: 2, coefficients: [1, 0.25]}}`, 305))(t)
	if m := training.Privacy.Mechanism; training.Separation != 7 || fmt.Sprint(m.Coefficients) != "[1 0.25]" {
		t.Errorf("separation %d, coefficients %v", training.Separation, m.Coefficients)
	}
}

func TestBadMechanismsAreRejected(t *testing.T) {
	t.Parallel()
	const noise = "clip: 1, noise_multiplier: 4, delta: 1e-5"
	for want, lines := range map[string]string{
		"is 31; expected at most 30":              "  rounds: 9\n  separation: 31\n  privacy: {" + noise + "}",
		"some user takes part 3 times":            "  rounds: 90\n  participations: 2\n  privacy: {" + noise + "}",
		"correlates noise, but there is no noise": "  rounds: 9\n  privacy: {clip: 1, mechanism: {}}",
		"needs the same clip norm in all rounds":  "  rounds: 9\n  privacy: {" + noise + ", adaptive: {}, mechanism: {}}",
		"of each, the number of buffers":          "  rounds: 9\n  privacy: {" + noise + ", mechanism: {scales: [0.1]}}",
		"the number of bands, or none":            "  rounds: 9\n  privacy: {" + noise + ", mechanism: {kind: banded, coefficients: [1]}}",
		"has invalid numbers":                     "  rounds: 9\n  privacy: {" + noise + ", mechanism: {kind: banded, bands: 2, coefficients: [0.5, 0.5]}}",
		"which training.algorithm: sgd does no":   "  rounds: 9\n  algorithm: sgd\n  privacy: {" + noise + "}",
		"supports at most 1048576 rounds":         "  rounds: 2000000\n  privacy: {" + noise + ", mechanism: {kind: tree}}",
	} {
		_, err := resolved(t, lines, 305)
		must.Say(t, err, want)
	}
	text := strings.Replace(string(ftrl("  rounds: 9\n  privacy: {"+noise+", mechanism: {}}")), "separated", "poisson", 1)
	_, err := experiment.Parse("ftrl.yaml", []byte(text), experiment.Options{})
	must.Say(t, err, "set training.sampling to separated")
}

func TestLabelsNameMechanism(t *testing.T) {
	t.Parallel()
	spec := must.Get(experiment.Parse("ftrl.yaml", append(ftrl("  rounds: 90\n  privacy: {clip: 1, noise_multiplier: 4, delta: 1e-5}"),
		"grid: {axes: {training.privacy.mechanism: [null, {kind: tree}, {kind: blt}, {kind: blt, buffers: 4}]}}\n"...), experiment.Options{}))(t)
	for i, want := range []string{"DP-FedAvg", "DP-FTRL (tree)", "DP-FTRL (blt), training.privacy.mechanism.buffers=3", "DP-FTRL (blt), training.privacy.mechanism.buffers=4"} {
		if got := spec.Cells[i].Label; !strings.HasPrefix(got, want) {
			t.Errorf("cell %d is named %q, want %q", i, got, want)
		}
	}
}
