package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/selection"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/results"
)

// unlikelyFile selects sentences that a model of another text finds unlikely, and in its last
// cells random sentences of fewer users than a cohort, and unlabelled ones of nobody.
const unlikelyFile = `
name: unlikely
data: {source: %s, vocabulary: {size: 60}, users: {words: 60}, select: {examples: unlikely, percentile: 80%%, at_least: 1}}
prepare: {language_model: {source: public.jsonl, steps: 3, batch: 4}}
model: {kind: gru, embedding: 4, units: 5}
training: {rounds: 2, cohort: 4, chunks: 1, privacy: {clip: 1, noise_multiplier: 1, delta: 1e-3}}
audit: {utility: true, accuracy_per_user: {}}
grid:
  axes:
    prepare.second_language_model: [null, {steps: 3, batch: 4}]
  include:
    - {prepare: null, data.select: {examples: random, percentile: null, per_user: 50, at_least: 7}, training.cohort: 198}
`

// The users that are left are those of the account, and where they are too few, the table says
// how many others would be.
func TestSelectionOfUnlikelySentencesIsReported(t *testing.T) {
	t.Parallel()
	path, home := smallFiles(t, unlikelyFile, string(taskstest.Text(1500)))
	public := []byte(strings.Repeat(`{"user":"anyone","text":"w1 w2 and a word that nobody else knows"}`+"\n", 9))
	must.Do(t, os.WriteFile(filepath.Join(filepath.Dir(path), "public.jsonl"), public, 0o600))
	var stdout, stderr bytes.Buffer
	execute(t.Context(), []string{"run", path, "--home", home}, &stdout, &stderr)
	var r results.Results
	run, _, _ := strings.Cut(strings.TrimPrefix(firstLine(stderr.String()+stdout.String()), "run "), "\n")
	if err := json.Unmarshal([]byte(prints(t, "results", run, "--home", home, "--format", "json")), &r); err != nil || len(r.Cells) != 3 {
		t.Fatalf("%v; the run printed\n%s%s", err, &stdout, &stderr)
	}
	for i, ratio := range []bool{false, true} {
		c := r.Cells[i]
		if c.Report == nil || c.Selection == nil || c.Selection.Outcome != selection.OfLowChance || c.Selection.Ratio != ratio || c.Privacy.Population != c.Selection.Users || c.Selection.Users >= c.Selection.OfUsers {
			t.Errorf("cell %d: %v, selection %+v, errors %v", i, c.Status, c.Selection, c.Errors)
		}
	}
	if c := r.Cells[2]; c.Status != results.Failed || len(c.Errors) != 1 || !strings.Contains(c.Errors[0], "the cohort of 198 is above the population of") || len(c.Thresholds) < 4 {
		t.Errorf("too few users: %s, %q, %v, %+v", c.Status, c.Errors, c.Thresholds, c.Report)
	}
	if want := "data.select would leave with at_least 1: "; !strings.Contains(prints(t, "results", run, "--home", home), want) {
		t.Errorf("the table lacks %q", want)
	}
}

// firstLine is the line that names a run.
func firstLine(text string) string {
	_, line, _ := strings.Cut(text, "run ")
	return strings.SplitN(line, "\n", 2)[0]
}
