package experiment

import (
	"strings"
	"testing"

	"coalmine/internal/must"
)

const labelledFile = `
name: scores
seed: 1
data: {source: x.jsonl, label: score, vocabulary: {size: 100}}
model: {kind: regressor, embedding: 5, units: 6}
training: {rounds: 3, cohort: 2, client: {learning_rate: 0.1}}
audit: {}
`

func TestLabelModelOutputsMatchData(t *testing.T) {
	t.Parallel()
	tagged := strings.NewReplacer("label: score", "label: tags, tags: [r, machine learning]", "regressor", "tagger").Replace(labelledFile)
	for file, want := range map[string][2]int{labelledFile: {9, 113}, tagged: {2, 106}} {
		spec := must.Get(Parse("labels.yaml", []byte(file), Options{}))(t)
		e := &spec.Cells[0].Experiment
		if c := e.Model.Config(&e.Data); c.Labels != want[0] || c.Vocabulary != want[1] || c.Projection != 0 || c.Validate() != nil {
			t.Errorf("%+v: want %d labels in a vocabulary of %d", c, want[0], want[1])
		}
	}
}

const taggedImages = `
name: tags
seed: 1
data: {source: x.jsonl, level: image, label: tags, tags: [dog, cat, tree], image: {width: 20, height: 18}}
model: {kind: cnn-tagger}
training: {rounds: 3, cohort: 2, client: {learning_rate: 0.1}}
audit: {}
`

func TestModelsOfImagesAndLabelsCountExamples(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{labelledFile: "example", taggedImages: "example", minimal: "token"} {
		if got := must.Get(Parse("x.yaml", []byte(file), Options{}))(t).Cells[0].Experiment.Target(); got != want {
			t.Errorf("a target is %q, want %q of %s", got, want, file)
		}
	}
}

func TestImageTagModelHasOutputPerTag(t *testing.T) {
	t.Parallel()
	spec := must.Get(Parse("tags.yaml", []byte(taggedImages), Options{}))(t)
	e := &spec.Cells[0].Experiment
	if c := e.Model.Config(&e.Data); c.Image.Classes != 3 || c.Image.Width != 20 || c.Validate() != nil {
		t.Errorf("%+v: want 3 labels of images of 20 x 18", c)
	}
	if r := e.Data.Reading(); r.Longest() != 3+20*18 {
		t.Errorf("an example has %d numbers; want 3 tags and 360 pixels", r.Longest())
	}
}

func TestImageTagsRejectConflictingFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, changed, want string }{
		{"cnn-tagger", "cnn", "model.kind: is cnn, but data.label is tags; expected cnn-tagger, or data.label: null"},
		{"cnn-tagger", "gan", "model.kind: is gan, but data.label is tags; expected cnn-tagger"},
		{"cnn-tagger", "tagger", "model.kind: is tagger, a model of texts, but data.level is image"},
		{"label: tags, tags: [dog, cat, tree], ", "", "model.kind: is cnn-tagger, which predicts labels of whole examples, but data.label is missing; expected data.label: tags"},
		{"[dog, cat, tree]", "[dog, dog]", `data.tags: cannot be predicted: the tag "dog" twice`},
		{"width: 20", "width: 17", "at least 18 pixels a side"},
		{"height: 18", "height: 18, unlabelled: true", "data.image.unlabelled: applies to images with one class each, but the model predicts the tags of images"},
		{"level: image", "level: image, faults: [{fault: blank}]", "data.faults: applies to images with one class each"},
		{"level: image", "level: image, select: {examples: random, share: 1/2}", "data.select: applies to images with one class each"},
		{"audit: {}", "audit: {recall_at_5: true}", "audit.recall_at_5: counts guesses of words or of classes, but data.label is tags"},
	} {
		file := strings.Replace(taggedImages, c.old, c.changed, 1)
		_, err := Parse("tags.yaml", []byte(file), Options{})
		must.Say(t, err, c.want)
	}
}

func TestLabelsRejectConflictingFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, changed, want string }{
		{"kind: regressor", "kind: tagger", "model.kind: is tagger, but data.label is score; expected regressor"},
		{"kind: regressor", "kind: lstm", "model.kind: is lstm, but data.label is score"},
		{"label: score, ", "", "model.kind: is regressor, which predicts labels of whole examples, but data.label is missing; expected data.label: score"},
		{"label: score", "label: tags", "data.tags: cannot be predicted: 0 tags"},
		{"label: score", "label: stars", "data.label: is \"stars\"; expected one of score, tags"},
		{"label: score, ", "tags: [r], ", "data.tags: has no effect without data.label: tags; add that, or remove the field"},
		{"label: score", "label: score, tags: [r]", "data.tags: has no effect with data.label: score"},
		{"label: score", "label: score, level: byte", "data.label: is predicted from words, but data.level is byte"},
		{"label: score", "label: score, pairs: true", "data.pairs: applies to language models"},
		{"label: score", "label: score, level: image", "data.label: is score, but data.level is image; the label of images is tags"},
		{"units: 6", "units: 6, projection: 3", "model.projection: has no effect with model.kind: regressor"},
		{"audit: {}", "audit: {}\ncanaries: {words: 5, configurations: [{user_probability: 1, example_probability: 1}]}", "canaries"},
		{"audit: {}", "audit: {accuracy_per_user: {}}", "audit.accuracy_per_user: counts correct predictions of words or classes, but data.label is score"},
		{"cohort: 2", "cohort: 2, algorithm: sgd, privacy: {clip: 1}", "training.privacy: clips the gradient of each record with sgd, which a regressor does not support"},
	} {
		file := strings.Replace(labelledFile, c.old, c.changed, 1)
		_, err := Parse("labels.yaml", []byte(file), Options{})
		must.Say(t, err, c.want)
	}
}
