package main

import (
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/testserver"
	"coalmine/workflows/results/trackers"
)

// trackedFile has rounds with and without clipping, measurements along them, central
// training, lists and an axis that a cell leaves out.
const trackedFile = `
name: tracked
data: {source: %s, vocabulary: {size: 80}, users: {words: 300}, test: {fraction: 10%%}}
canaries: {words: 4, per_configuration: 2, user_probability: [1/3, 1/2], example_probability: 1}
model: {kind: gru, embedding: 4, units: 5}
audit: {every: 2, random_sampling: {references: 100}, utility: true}
grid:
  axes:
    training:
      - {rounds: 6, cohort: 4, privacy: {clip: 0.1, noise_multiplier: 1, delta: 1e-5}}
      - {rounds: 3, cohort: 4}
      - {algorithm: sgd, rounds: 50, cohort: 4, steps_per_task: 20}
`

func TestTrackersHaveEveryNumberOfTheResultsElsewhere(t *testing.T) {
	t.Parallel()
	home, dir := smallRun(t, trackedFile), t.TempDir()
	for name, args := range map[string][]string{
		"results.json":    {"results", "--json"},
		"rounds.json":     {"results", "--rows", "rounds", "--json"},
		"cells.csv":       {"results", "--format", "csv"},
		"experiment.json": {"show", "latest", "--json"},
	} {
		writeFile(t, filepath.Join(dir, name), outputOf(t, home, args...))
	}
	if text := string(outputOf(t, home, "results", "--format", "tensorboard", "-o", filepath.Join(dir, "logs"))); !strings.Contains(text, "tensorboard --logdir "+filepath.Join(dir, "logs")) {
		t.Errorf("the command says %q, not how to look at it", text)
	}
	var written trackers.Written
	decodeJSON(t, outputOf(t, home, "results", "--format", "mlflow", "-o", filepath.Join(dir, "mlruns"), "--json"), &written)
	if written.Cells != 3 {
		t.Errorf("--json says %+v", written)
	}
	program := testserver.Python(t, "struct")
	runPython(t, ".", program, "-m", "check_trackers", dir)
}

func TestTrackersRejectInvalidFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--format mlflow writes several files: name a folder with -o": {"--format", "mlflow"},
		"remove --rows": {"--format", "tensorboard", "-o", "logs", "--rows", "rounds"},
		`--format "gif": expected one of table, json, csv, latex, parquet, html, svg, pdf, png, mlflow, tensorboard`: {"--format", "gif"},
	} {
		args = append([]string{"results", "--home", t.TempDir()}, args...)
		refuses(t, want, args...)
	}
}
