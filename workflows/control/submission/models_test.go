package submission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/pretrained/pretrainedtest"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
)

const tuned = `
name: tuned
data: {source: text.jsonl, level: subword, vocabulary: {size: 520}, users: {words: 60}}
canaries: {format: "the # of #", per_configuration: 1, insertions: [1], held_back: 1}
model: {kind: transformer, pretrained: llama}
training: {engine: pytorch, rounds: 2, cohort: 4, chunks: 2, client: {learning_rate: 0.1}}
audit: {random_sampling: {references: 50}}
`

// prepareTuned prepares an experiment beside a folder with a model. edit may change the folder's files.
func prepareTuned(t *testing.T, edit func(file string, data []byte) []byte, sets ...string) (*Submission, error) {
	t.Helper()
	dir := folder(t, "tuned", map[string]string{"text.jsonl": text(0, 400), "tuned.yaml": tuned})
	must.Do(t, os.CopyFS(filepath.Join(dir, "llama"), pretrainedtest.Folder(t, "llama", edit)))
	code := filepath.Join(dir, experiment.TrainerCode)
	must.Do(t, os.Mkdir(code, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(code, "torch.py"), []byte("print()\n"), 0o600))
	return Prepare(t.Context(), filepath.Join(dir, "tuned.yaml"), experiment.Options{Sets: sets}, nil)
}

func TestAPretrainedModelIsASourceOfTheRun(t *testing.T) {
	t.Parallel()
	s := must.Get(prepareTuned(t, nil))(t)
	e := &s.Spec.Cells[0].Experiment
	want := models.Config{
		Kind: models.Transformer, Vocabulary: 524, Embedding: 24, Units: 40, Layers: 2, Heads: 4, Context: 40, Untied: true,
		Blocks: models.Blocks{Rotary: 6, Theta: 10_000, KeyHeads: 2, RMS: true, Epsilon: 1e-6, Activation: models.SiLU, Gated: true, Unbiased: true},
	}
	if got := e.Model.Config(&e.Data); got != want || e.Data.Tokenizer != "llama/tokenizer.json" {
		t.Errorf("the model is %+v with the tokenizer %s, want %+v", got, e.Data.Tokenizer, want)
	}
	if found, err := compile.Sources(s.Spec); err != nil || !slices.Contains(found, e.Model.Initial()) {
		t.Errorf("sources %v, error %v; expected the checkpoint %s among them", found, err, e.Model.PretrainedSHA256)
	}
	// A coordinator reads the record.
	read := must.Get(experiment.ReadSpec(s.Spec.Canonical()))(t)
	if err := read.Check(); err != nil {
		t.Error(err)
	}
	again := must.Get(prepareTuned(t, nil, "model.pretrained_sha256="+e.Model.PretrainedSHA256))(t)
	if report(t, again) != report(t, s) {
		t.Error("the digest that a run has makes other keys")
	}
}

// Other weights change every key.
func TestAPretrainedModelsWeightsAreInTheKeys(t *testing.T) {
	t.Parallel()
	s := must.Get(prepareTuned(t, nil))(t)
	other, err := prepareTuned(t, func(file string, data []byte) []byte {
		if strings.HasSuffix(file, ".safetensors") {
			data[len(data)-1] ^= 0x80 // the sign of the last number
		}
		return data
	})
	if err != nil {
		t.Fatal(err)
	}
	if report(t, other) == report(t, s) {
		t.Error("other weights have the same keys")
	}
}

func TestPretrainedModelsThatCannotBeginATrainingAreRefused(t *testing.T) {
	t.Parallel()
	for want, set := range map[string]string{
		"there is no such folder":          "model.pretrained=none",
		"is no folder; expected one with":  "model.pretrained=text.jsonl",
		"has 520 tokens; set it to that":   "data.vocabulary.size=500",
		"model.context: is 40, and an exa": "data.sequence=41",
		"restore the folder, or correct":   "model.pretrained_sha256=" + strings.Repeat("0", 64),
	} {
		if _, err := prepareTuned(t, nil, set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", set, err, want)
		}
	}
}
