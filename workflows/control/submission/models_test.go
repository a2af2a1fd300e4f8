package submission

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/external"
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
	dir := folder(t, "tuned", map[string]string{"text.jsonl": words(0, 400), "tuned.yaml": tuned})
	must.Do(t, os.CopyFS(filepath.Join(dir, "llama"), pretrainedtest.Folder(t, "llama", edit)))
	code := filepath.Join(dir, experiment.TrainerCode)
	must.Do(t, os.Mkdir(code, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(code, "torch.py"), []byte("print()\n"), 0o600))
	return prepareAt(t, filepath.Join(dir, "tuned.yaml"), experiment.Options{Sets: sets})
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
func TestKeysIncludePretrainedWeights(t *testing.T) {
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

func TestInvalidPretrainedModelsAreRejected(t *testing.T) {
	t.Parallel()
	for want, set := range map[string]string{
		"no such folder in the":            "model.pretrained=none",
		"is not a folder; expected one":    "model.pretrained=text.jsonl",
		"is 500; expected 520, the number": "data.vocabulary.size=500",
		"model.context: is 40, but an exa": "data.sequence=41",
		"restore the folder, or correct":   "model.pretrained_sha256=" + strings.Repeat("0", 64),
	} {
		if _, err := prepareTuned(t, nil, set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", set, err, want)
		}
	}
	_, err := prepareTuned(t, func(file string, data []byte) []byte {
		if file == "tokenizer.json" {
			return nil
		}
		return data
	})
	if err == nil || strings.Count(err.Error(), "tokenizer.json") != 1 {
		t.Errorf("a folder without tokenizer.json: error %v, want one that names the file once", err)
	}
}

const programmed = `
name: programmed
data: {source: %q, vocabulary: {size: 20}, users: {words: 40}}
canaries: {words: 3, per_configuration: 1, user_probability: 1/2, example_probability: 1/2, held_back: 1}
model: {kind: external}
training: {command: sh train.sh, rounds: 2, code: %q, code_roles: {training: [train.sh], scorer: [score.sh], client: [client.sh]}}
audit: {random_sampling: {references: 50}}
`

// A changed file runs again only the nodes that get the file.
func TestChangedCodeChangesKeysOfItsRoles(t *testing.T) {
	t.Parallel()
	data := folder(t, "texts", map[string]string{"a.jsonl": words(0, 300)})
	code := folder(t, "code", map[string]string{"train.sh": "a", "score.sh": "b", "client.sh": "c", "both.sh": "d"})
	file := filepath.Join(t.TempDir(), "programmed.yaml")
	content := fmt.Sprintf(programmed, data, code)
	must.Do(t, os.WriteFile(file, []byte(content), 0o600))
	keys := func(sets ...string) (training, report storage.Key, sources int) {
		t.Helper()
		s := must.Get(prepareAt(t, file, experiment.Options{Sets: sets}))(t)
		p := must.Get(compile.Plan(s.Spec))(t)
		if again, err := experiment.ReadSpec(s.Spec.Canonical()); err != nil || again.Check() != nil {
			t.Errorf("the record does not read back: %v", err)
		}
		for key, n := range p.Nodes {
			if n.Kind == external.Train.Name {
				training = key
			}
		}
		return training, p.Cells[0].Report.Key, len(p.Sources)
	}
	training, report, sources := keys()
	if sources != 3 {
		t.Errorf("%d sources; want the data and the code of two roles", sources)
	}
	for _, c := range []struct {
		file             string
		trains, measures bool
	}{{"score.sh", false, true}, {"client.sh", false, false}, {"train.sh", true, true}, {"both.sh", true, true}} {
		must.Do(t, os.WriteFile(filepath.Join(code, c.file), []byte("changed"), 0o600))
		newTraining, newReport, _ := keys()
		if newTraining != training != c.trains || newReport != report != c.measures {
			t.Errorf("a change of %s: another training %v, another report %v; want %v, %v", c.file, newTraining != training, newReport != report, c.trains, c.measures)
		}
		training, report = newTraining, newReport
	}
	if _, _, n := keys("training.code_roles=null"); n != 2 {
		t.Errorf("without roles: %d sources; want the data and one archive of code", n)
	}
	_, err := prepareAt(t, file, experiment.Options{Sets: []string{"training.code_roles={scorer: [scroe.sh]}"}})
	if err == nil || !strings.Contains(err.Error(), `is named "scroe.sh"; it has both.sh, client.sh, score.sh, train.sh`) {
		t.Errorf("a mistyped name: %v", err)
	}
	s := must.Get(prepareAt(t, file, experiment.Options{}))(t)
	_, err = prepareAt(t, file, experiment.Options{Sets: []string{"training.scorer_sha256=" + s.Spec.Cells[0].Experiment.Training.CodeSHA256}})
	if err == nil || !strings.Contains(err.Error(), "training.scorer_sha256: is ") || !strings.Contains(err.Error(), ": restore the code, or correct the field") {
		t.Errorf("another digest of the scorer's code: %v", err)
	}
}

const subworded = `
name: tiny
data: {source: text.jsonl, level: subword, tokenizer: tokenizer.json, vocabulary: {size: 487}, users: {words: 60}}
canaries: {format: "the # of #", per_configuration: 1, insertions: [1], held_back: 1}
model: {embedding: 4, units: 4}
training: {rounds: 2, cohort: 4, chunks: 2}
audit: {random_sampling: {references: 50}}
`

func tokenizer(t *testing.T) string {
	t.Helper()
	return string(must.Get(os.ReadFile("../../../tasks/datasets/subwords/testdata/gpt2.json"))(t))
}

// prepareSubworded prepares an experiment beside a file tokenizer.json.
func prepareSubworded(t *testing.T, tokenizer string, sets ...string) (*Submission, error) {
	t.Helper()
	dir := folder(t, "subwords", map[string]string{"text.jsonl": words(0, 400), "tokenizer.json": tokenizer, "tiny.yaml": subworded})
	return prepareAt(t, filepath.Join(dir, "tiny.yaml"), experiment.Options{Sets: sets})
}

func TestATokenizerIsASourceOfTheRun(t *testing.T) {
	t.Parallel()
	s := must.Get(prepareSubworded(t, tokenizer(t)))(t)
	digest := storage.DigestOf([]byte(tokenizer(t)))
	e := &s.Spec.Cells[0].Experiment
	if words := e.Canaries.Symbols; e.Data.TokenizerSHA256 != digest.String() || !slices.Contains(words, "of") || len(words) > experiment.MaxCanaryWords {
		t.Errorf("digest %s, words %q; expected %s, and words of one token each", e.Data.TokenizerSHA256, words, digest)
	}
	if found, err := compile.Sources(s.Spec); err != nil || !slices.Contains(found, digest) {
		t.Errorf("sources %v, error %v; expected the tokenizer among them", found, err)
	}
	// The record, as a coordinator reads it.
	read := must.Get(experiment.ReadSpec(s.Spec.Canonical()))(t)
	if err := read.Check(); err != nil {
		t.Error(err)
	}
}

// The error for a folder in place of a file names the folder, and the file in it if there is one.
func TestTokenizerFolderIsReported(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"data.tokenizer=model":     "model is a folder; expected its file model/tokenizer.json",
		"data.tokenizer=model/":    "model/ is a folder; expected its file model/tokenizer.json",
		"data.tokenizer=empty":     "expected a file tokenizer.json: ",
		"data.tokenizer=several":   "several has 2 files; expected one file tokenizer.json",
		"data.tokenizer=none.json": "expected a file tokenizer.json: ",
	} {
		dir := folder(t, "folders", map[string]string{"text.jsonl": words(0, 400), "tiny.yaml": subworded, "model/tokenizer.json": tokenizer(t), "model/config.json": "{}", "empty/weights": "", "several/a.json": "{}", "several/b.json": "{}"})
		_, err := prepareAt(t, filepath.Join(dir, "tiny.yaml"), experiment.Options{Sets: []string{set}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; expected %q", set, err, want)
		}
	}
}

// Another tokenizer changes every key, and the same one under another name none.
func TestKeysIncludeTokenizerContent(t *testing.T) {
	t.Parallel()
	keys := map[string]storage.Key{}
	for name, file := range map[string]string{"same": tokenizer(t), "other": tokenizer(t) + "\n"} {
		s := must.Get(prepareSubworded(t, file))(t)
		keys[name] = report(t, s)
	}
	s := must.Get(prepareSubworded(t, tokenizer(t), "data.tokenizer=./tokenizer.json"))(t)
	if again := report(t, s); again != keys["same"] || again == keys["other"] {
		t.Errorf("keys %s of one tokenizer, %s of the same elsewhere, %s of another", keys["same"], again, keys["other"])
	}
}

func TestInvalidTokenizersAreRejected(t *testing.T) {
	t.Parallel()
	good := tokenizer(t)
	for _, test := range []struct{ file, set, want string }{
		{`{"model":{"type":"WordPiece"}}`, "", `model "WordPiece" is not supported`},
		{`{"model":`, "", "malformed"},
		{good, "data.tokenizer=absent.json", "absent.json: no such file"},
		{good, "data.tokenizer=null", "data.tokenizer: missing"},
		{good, "data.vocabulary.size=400", "is 400; expected 487, the number of tokens of tokenizer.json"},
		{good, "data.tokenizer_sha256=" + strings.Repeat("0", 64), "data.tokenizer_sha256 is 000"},
		{good, `canaries.format="the antidisestablishmentarianism #"`, "single tokens of tokenizer.json; these are not: antidisestablishmentarianism"},
		{good, "canaries.symbols=[of, zebra, and, to, in, that, his, he]", "single tokens of tokenizer.json; these are not: zebra"},
		{good, "data.sanitize={patterns: [card]}", "data.sanitize"},
		{good, "data.faults=[{fault: join-words, users: 1/2}]", "data.faults"},
	} {
		var sets []string
		if test.set != "" {
			sets = append(sets, test.set)
		}
		if _, err := prepareSubworded(t, test.file, sets...); err == nil || !strings.Contains(fmt.Sprint(err), test.want) {
			t.Errorf("%q %s: error %v; expected one with %q", test.file[:9], test.set, err, test.want)
		}
	}
}
