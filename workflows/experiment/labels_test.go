package experiment

import (
	"strings"
	"testing"
)

const labelledFile = `
name: scores
seed: 1
data: {source: x.jsonl, label: score, vocabulary: {size: 100}}
model: {kind: regressor, embedding: 5, units: 6}
training: {rounds: 3, cohort: 2, client: {learning_rate: 0.1}}
audit: {}
`

func TestAModelOfLabelsHasAnOutputForWhatTheDataSay(t *testing.T) {
	t.Parallel()
	tagged := strings.NewReplacer("label: score", "label: tags, tags: [r, machine learning]", "regressor", "tagger").Replace(labelledFile)
	for file, want := range map[string][2]int{labelledFile: {9, 113}, tagged: {2, 106}} {
		spec, err := Parse("labels.yaml", []byte(file), Options{})
		if err != nil {
			t.Fatal(err)
		}
		e := &spec.Cells[0].Experiment
		if c := e.Model.Config(&e.Data); c.Labels != want[0] || c.Vocabulary != want[1] || c.Projection != 0 || c.Validate() != nil {
			t.Errorf("%+v: want %d labels in a vocabulary of %d", c, want[0], want[1])
		}
	}
}

func TestWhatDoesNotGoWithLabelsIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, changed, want string }{
		{"kind: regressor", "kind: tagger", "model.kind: is tagger, and data.label is score; expected regressor"},
		{"kind: regressor", "kind: lstm", "model.kind: is lstm, and data.label is score"},
		{"label: score, ", "", "model.kind: is regressor, which predicts what is said of a text, and data.label does not say what; expected data.label: score"},
		{"label: score", "label: tags", "data.tags: cannot be predicted: 0 tags"},
		{"label: score", "label: stars", "data.label: is \"stars\"; expected one of score, tags"},
		{"label: score", "label: score, tags: [r]", "data.tags: has no meaning with data.label: score"},
		{"label: score", "label: score, level: byte", "data.label: is predicted of words, and data.level is byte"},
		{"label: score", "label: score, pairs: true", "data.pairs: is for language models"},
		{"units: 6", "units: 6, projection: 3", "model.projection: has no meaning with model.kind: regressor"},
		{"audit: {}", "audit: {}\ncanaries: {words: 5, configurations: [{user_probability: 1, example_probability: 1}]}", "canaries"},
		{"audit: {}", "audit: {accuracy_per_user: {}}", "audit.accuracy_per_user: counts what is predicted correctly, and data.label is score"},
		{"cohort: 2", "cohort: 2, algorithm: sgd, privacy: {clip: 1}", "training.privacy: clips the gradient of every record with sgd, which a regressor cannot"},
	} {
		file := strings.Replace(labelledFile, c.old, c.changed, 1)
		_, err := Parse("labels.yaml", []byte(file), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.changed, err, c.want)
		}
	}
}
