package submission

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
)

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
	dir := folder(t, "subwords", map[string]string{"text.jsonl": text(0, 400), "tokenizer.json": tokenizer, "tiny.yaml": subworded})
	return Prepare(t.Context(), filepath.Join(dir, "tiny.yaml"), experiment.Options{Sets: sets}, nil)
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
func TestAFolderOfATokenizerIsNamed(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"data.tokenizer=model":     "model is a folder; expected its file model/tokenizer.json",
		"data.tokenizer=model/":    "model/ is a folder; expected its file model/tokenizer.json",
		"data.tokenizer=empty":     "expected a file tokenizer.json: ",
		"data.tokenizer=several":   "several has 2 files; expected one file tokenizer.json",
		"data.tokenizer=none.json": "expected a file tokenizer.json: ",
	} {
		dir := folder(t, "folders", map[string]string{"text.jsonl": text(0, 400), "tiny.yaml": subworded, "model/tokenizer.json": tokenizer(t), "model/config.json": "{}", "empty/weights": "", "several/a.json": "{}", "several/b.json": "{}"})
		_, err := Prepare(t.Context(), filepath.Join(dir, "tiny.yaml"), experiment.Options{Sets: []string{set}}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; expected %q", set, err, want)
		}
	}
}

// Another tokenizer changes every key, and the same one under another name none.
func TestTheTokenizersContentIsInTheKeys(t *testing.T) {
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

func TestTokenizersAreRefusedByName(t *testing.T) {
	t.Parallel()
	good := tokenizer(t)
	for _, test := range []struct{ file, set, want string }{
		{`{"model":{"type":"WordPiece"}}`, "", `model "WordPiece" is not supported`},
		{`{"model":`, "", "malformed"},
		{good, "data.tokenizer=absent.json", "absent.json: there is no such file"},
		{good, "data.tokenizer=null", "data.tokenizer: missing"},
		{good, "data.vocabulary.size=400", "is 400, and tokenizer.json has 487 tokens"},
		{good, "data.tokenizer_sha256=" + strings.Repeat("0", 64), "data.tokenizer_sha256 is 000"},
		{good, `canaries.format="the antidisestablishmentarianism #"`, "not one token each of tokenizer.json: antidisestablishmentarianism"},
		{good, "canaries.symbols=[of, zebra, and, to, in, that, his, he]", "not one token each of tokenizer.json: zebra"},
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
