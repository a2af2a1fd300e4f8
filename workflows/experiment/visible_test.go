package experiment

import (
	"strings"
	"testing"

	"coalmine/internal/readable"
)

// programmed is an experiment of a program, whose job may hold any text.
const programmed = `
name: programmed
seed: 1
data: {source: d.jsonl, vocabulary: {size: 20}, users: {words: 50}, test: {fraction: 10%}}
model: {kind: external}
training: {command: sh train.sh, code: trainer, rounds: 1}
`

// A value of an axis is text of others: it cannot end a line of a table, or hide in one.
func TestLabelsAreVisible(t *testing.T) {
	t.Parallel()
	spec := parse(t, programmed+`grid: {axes: {training.job.x: ["one\ntwo", "\u202eevil", "\e[31mred", "plain", "\"one\\ntwo\""]}}`)
	seen := map[string]bool{}
	for _, c := range spec.Cells {
		if !readable.IsVisible(c.Label) || strings.Contains(c.Label, "\n") || seen[c.Label] {
			t.Errorf("cell %s has the label %q", c.Name, c.Label)
		}
		seen[c.Label] = true
	}
	if got, want := spec.Cells[3].Label, "training.job.x=plain"; got != want {
		t.Errorf("an ordinary value has the label %q, want %q", got, want)
	}
}

// Show prints a file that runs again, with any values.
func TestInvisibleValuesYAMLRoundTrip(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`"\e[31mred\a"`, `"\u202eevil"`, `"a\nname: evil"`, `"\U000E0041tag"`, `"=1"`} {
		spec := parse(t, programmed+"grid: {axes: {training.job.x: ["+value+"]}}")
		text, err := spec.YAML()
		if err != nil || !readable.IsVisible(string(text)) {
			t.Fatalf("%s is written as %q, %v", value, text, err)
		}
		again, err := Parse("again", text, Options{})
		if err != nil || string(again.Cells[0].Experiment.Training.Job) != string(spec.Cells[0].Experiment.Training.Job) {
			t.Errorf("%s came back from\n%s\nwith error %v", value, text, err)
		}
	}
}

// A record is taken whose file states a default that its cells differ in.
func TestLabelMayStateDefault(t *testing.T) {
	t.Parallel()
	spec := recorded(t, `
name: levels
seed: 1
data: {source: a.jsonl, level: word, vocabulary: {size: 100}, users: {words: 100}}
model: {embedding: 4, units: 4}
training: {rounds: 10, cohort: 5, client: {learning_rate: 0.1}}
grid: {axes: {data: [{}, {level: byte, vocabulary: null, users: {words: 1000}}]}}
`)
	if label := spec.Cells[0].Label; !strings.Contains(label, "data.level=word") {
		t.Fatalf("the label is %q, want one that states the level", label)
	}
	if err := spec.Check(); err != nil {
		t.Error(err)
	}
}
