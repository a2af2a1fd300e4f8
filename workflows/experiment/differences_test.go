package experiment

import (
	"bytes"
	"slices"
	"testing"

	"coalmine/internal/must"
)

// An experiment as YAML is a file that means the same.
func TestResolvedExperimentYAMLRoundTrip(t *testing.T) {
	t.Parallel()
	spec := must.Get(Parse("grid.yaml", []byte(`
name: grid
data: {source: "a: 1.jsonl", users: {words: 50}}
training: {rounds: 40, cohort: 5, privacy: {clip: 0.5, noise_multiplier: 1, delta: 1e-7}}
canaries: {user_probability: [1/5000, 10%], example_probability: 10%}
audit: {random_sampling: {references: 1000}}
grid: {axes: {data.partition: [iid, by-user], training.server.learning_rate: [1, 0.5]}}
`), Options{}))(t)
	for _, c := range spec.Cells {
		text := must.Get(c.Experiment.YAML())(t)
		again, err := Parse("again.yaml", text, Options{})
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if !bytes.Equal(again.Cells[0].Experiment.Canonical(), c.Experiment.Canonical()) {
			t.Errorf("%s comes back as another experiment:\n%s", c.Name, text)
		}
	}
	var got []string
	for _, d := range Differences(&spec.Cells[0].Experiment, &spec.Cells[3].Experiment) {
		got = append(got, d.String())
	}
	if want := []string{"data.partition: iid -> by-user", "training.server.learning_rate: 1 -> 0.5"}; !slices.Equal(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}
}

// A block that the command gets as it stands has no list of fields.
func TestDifferencesNameTheFieldsOfAFreeBlock(t *testing.T) {
	t.Parallel()
	spec := must.Get(Parse("grid.yaml", []byte(`
name: grid
data: {source: 1.jsonl}
model: {kind: external}
training: {command: sh train.sh, rounds: 2, job: {epochs: 1, rate: {first: 0.5}}}
grid: {axes: {training.job.epochs: [1, 2], training.job.rate: [{first: 0.5}, {first: 0.5, last: 0.1}]}}
`), Options{}))(t)
	var got []string
	for _, d := range Differences(&spec.Cells[0].Experiment, &spec.Cells[3].Experiment) {
		got = append(got, d.String())
	}
	if want := []string{"training.job.epochs: 1 -> 2", "training.job.rate.last: none -> 0.1"}; !slices.Equal(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}
}
