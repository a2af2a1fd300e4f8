package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"coalmine/internal/must"
	"coalmine/internal/score"
	"coalmine/internal/testserver"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/standalone/canaryfiles"
	"coalmine/workflows/standalone/modelaudit/servetest"
)

// outsideFile has canaries and coins, on words.
const outsideFile = `
name: outside
data: {source: %s, vocabulary: {size: 80}, users: {words: 100}, test: {fraction: 10%%}}
canaries: {words: 4, per_configuration: 2, user_probability: 1/4, example_probability: 1, held_back: 2}
model: {embedding: 6, units: 8}
training: {rounds: 20, cohort: 10, client: {learning_rate: 8, gradient_clip: 1}}
audit: {random_sampling: {references: 200, exact: true}, one_run: {canaries: 20, words: 4}}
`

// scoresOf are the scores that a model gives to all lines, as a file.
func scoresOf(t *testing.T, f *canaryfiles.File, model string) string {
	t.Helper()
	data := contentOf(t, model)
	client := must.Get(score.Start(t.Context(), score.Options{Command: servetest.Command(t, []byte(data))}))(t)
	var pairs []score.Pair
	for _, l := range f.Lines {
		pairs = append(pairs, score.Pair{Context: l.Context, Continuation: l.Continuation})
	}
	answers := must.Get(client.LogLikelihoods(t.Context(), pairs, 100))(t)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	var lines strings.Builder
	for i, a := range answers {
		fmt.Fprintf(&lines, "{\"id\": %q, \"log_probability\": %v, \"greedy\": %v}\n", f.Lines[i].ID, a.LogProb, a.Greedy)
	}
	path := model + ".jsonl"
	writeFile(t, path, lines.String())
	return path
}

// Canaries that leave as files and come back as scores have the verdicts of the run.
func TestScoreFilesReproduceVerdictsOfRun(t *testing.T) {
	t.Parallel()
	testserver.WithoutRace(t)
	home := smallRun(t, outsideFile)
	dir := filepath.Join(home, "..")
	told := prints(t, "canaries", "export", filepath.Join(dir, "small.yaml"), "-o", filepath.Join(dir, "files"), "--references", "200")
	if !strings.Contains(told, "2 canaries, 2 held back, 20 coins, 800 references") {
		t.Errorf("it told %q", told)
	}
	path := filepath.Join(dir, "files", canariesFile)
	text := must.Get(os.Open(path))(t)
	f, err := canaryfiles.Read(path, text)
	must.Do(t, errors.Join(err, text.Close()))
	trained, initial := filepath.Join(dir, "trained"), filepath.Join(dir, "initial")
	prints(t, "export", "latest", "c01", "--home", home, "-o", trained)
	prints(t, "export", "latest", "c01", "--home", home, "--round", "0", "-o", initial)
	args := []string{"audit", "--canaries", path, "--scores", scoresOf(t, f, trained), "--initial-scores", scoresOf(t, f, initial)}
	var got canaryfiles.Report
	decodeJSON(t, prints(t, append(args, "--json")...), &got)
	checkOutside(t, home, &got)
	var byHarness canaryfiles.Report
	samples := []string{harnessSamples(t, filepath.Join(dir, "files"), trained), harnessSamples(t, filepath.Join(dir, "files"), initial)}
	decodeJSON(t, prints(t, "audit", "--canaries", path, "--scores", samples[0], "--initial-scores", samples[1], "--json"), &byHarness)
	checkOutside(t, home, &byHarness)
	table := prints(t, args...)
	for _, want := range []string{"canary-0", "held-back-2", "ranked among references: the references were scored", "(Mann-Whitney)", "one-run: epsilon >= ", "guesses right, score loss-difference"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is missing in\n%s", want, table)
		}
	}
	task, err := os.ReadFile(filepath.Join(dir, "files", harnessFile))
	if err != nil || !strings.Contains(string(task), "test: "+textsFile) {
		t.Errorf("%v, %s", err, task)
	}
}

// harnessSamples are the samples that lm-evaluation-harness would log of the task in a directory:
// it fills the templates of the task with each row, and adds up the model's scores of the pieces of
// the target, one after the other. Here these are words, scored one by one.
func harnessSamples(t *testing.T, dir, model string) string {
	t.Helper()
	var task struct {
		Output    string `yaml:"output_type"`
		Context   string `yaml:"doc_to_text"`
		Target    string `yaml:"doc_to_target"`
		Delimiter string `yaml:"target_delimiter"`
		Dataset   struct {
			Files map[string]string `yaml:"data_files"`
		} `yaml:"dataset_kwargs"`
	}
	if err := yaml.Unmarshal([]byte(contentOf(t, filepath.Join(dir, harnessFile))), &task); err != nil || task.Output != "loglikelihood" {
		t.Fatalf("%v, the task is of %q", err, task.Output)
	}
	client := must.Get(score.Start(t.Context(), score.Options{Command: servetest.Command(t, []byte(contentOf(t, model)))}))(t)
	var samples strings.Builder
	for line := range strings.Lines(contentOf(t, filepath.Join(dir, task.Dataset.Files["test"]))) {
		var row map[string]any
		decodeJSON(t, line, &row)
		fill := strings.NewReplacer("{{context}}", row["context"].(string), "{{continuation}}", row["continuation"].(string))
		text, target := fill.Replace(task.Context), task.Delimiter+fill.Replace(task.Target)
		var pieces []score.Pair
		for _, word := range strings.Fields(target) {
			pieces = append(pieces, score.Pair{Context: text, Continuation: " " + word})
			text += " " + word
		}
		answers := must.Get(client.LogLikelihoods(t.Context(), pieces, 100))(t)
		sum, greedy := 0.0, "True"
		for _, a := range answers {
			if sum += a.LogProb; !a.Greedy {
				greedy = "False"
			}
		}
		fmt.Fprintf(&samples, `{"doc": %s, "filtered_resps": [["%v", "%s"]]}`+"\n", strings.TrimSpace(line), sum, greedy)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	path := model + ".samples"
	writeFile(t, path, samples.String())
	return path
}

// checkOutside compares with the results of the run.
func checkOutside(t *testing.T, home string, got *canaryfiles.Report) {
	t.Helper()
	type ranked struct {
		Words         []string
		Rank          int64
		LogPerplexity float64 `json:"log_perplexity"`
	}
	var results struct {
		Cells []struct {
			Audit struct {
				Canaries, Controls []ranked
				Never              []ranked        `json:"never_inserted"`
				OneRun             json.RawMessage `json:"one_run"`
			}
		}
	}
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &results)
	audit := results.Cells[0].Audit
	want := map[string]ranked{}
	for _, c := range append(append(audit.Canaries, audit.Never...), audit.Controls...) {
		want[strings.Join(c.Words, " ")] = c
	}
	for _, m := range append(got.Canaries, got.Controls...) {
		w, ok := want[m.Text]
		if !ok || *m.Rank != w.Rank || math.Abs(*m.LogPerplexity-w.LogPerplexity) > 1e-9 || m.Among != 200 {
			t.Errorf("%s %q has rank %d and %v nats, in the run %+v", m.ID, m.Text, *m.Rank, *m.LogPerplexity, w)
		}
	}
	var oneRun struct {
		Canaries, Included, Correct int
		Lower                       float64 `json:"epsilon_lower"`
	}
	decodeJSON(t, string(audit.OneRun), &oneRun)
	if v := got.OneRun; v == nil || v.Canaries != 20 || v.Canaries != oneRun.Canaries || v.Included != oneRun.Included || v.Correct != oneRun.Correct || v.EpsilonLower != oneRun.Lower {
		t.Errorf("coins: %+v, in the run %+v", v, oneRun)
	}
}

func TestInvalidCanariesAndScoresAreRejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list, scores := filepath.Join(dir, "canaries.jsonl"), filepath.Join(dir, "scores.jsonl")
	writeFile(t, list, `{"contract":"coalmine/canaries","version":1}`+"\n"+`{"id":"a","kind":"canary","context":"","continuation":"x"}`+"\n")
	writeFile(t, scores, `{"id":"b","log_probability":-1}`+"\n")
	refuses(t, "--references with --scores, which queries no model", "audit", "--canaries", list, "--scores", scores, "--references", "10")
	refuses(t, "expected the one that was chosen before", "audit", "--canaries", list, "--scores", scores, "--plain-loss", "--initial-scores", scores)
	refuses(t, "1 lines have no score: a", "audit", "--canaries", list, "--scores", scores)
	refuses(t, "--canaries: "+scores+", line 1: it does not begin", "audit", "--canaries", scores, "--scores", scores)
	refuses(t, "--scores: open", "audit", "--canaries", list, "--scores", filepath.Join(dir, "none"))
	path, _ := smallFiles(t, outsideFile, string(taskstest.Text(1500)))
	export := []string{"canaries", "export", path, "-o", filepath.Join(dir, "files")}
	for want, args := range map[string][]string{
		"--cell c02: the experiment has no such cell; it has c01":          {"--cell", "c02"},
		"-1 references after a prefix of 0: expected 0 to 1000000":         {"--references", "-1"},
		"a prefix of 4 in canaries of length 4; expected a shorter prefix": {"--prefix", "4"},
		"neither a canaries block nor audit.one_run":                       {"--set", "canaries=null", "--set", "audit=null"},
	} {
		fails(t, want, append(export[:len(export):len(export)], args...)...)
	}
}
