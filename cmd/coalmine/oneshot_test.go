package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"coalmine/tasks/taskstest"
)

// oneShotFile has canary clients in a training with noise.
const oneShotFile = `
name: one-shot
data: {source: %q, vocabulary: {size: 60}, users: {words: 60}}
model: {embedding: 24, units: 24}
training: {rounds: 4, cohort: 40, client: {learning_rate: 1}, privacy: {clip: 0.5, noise_multiplier: 1, delta: 1e-4}}
audit: {one_shot: {canaries: 60}}
`

// Both estimates of a real run, by SciPy from its models, and the directions from the streams.
func TestOneShotEstimatesAreRecomputedElsewhere(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "scipy")
	if interpreter == "" {
		t.Skip("no Python with SciPy")
	}
	dir := t.TempDir()
	home, file := filepath.Join(dir, "home"), filepath.Join(dir, "one-shot.yaml")
	source := filepath.Join(dir, "text.jsonl")
	for path, data := range map[string][]byte{source: taskstest.Text(1500), file: fmt.Appendf(nil, oneShotFile, source)} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	outputOf(t, home, "run", file)
	facts := filepath.Join(dir, "c01")
	if err := os.Mkdir(facts, 0o755); err != nil {
		t.Fatal(err)
	}
	outputOf(t, home, "export", "latest", "c01", "-o", filepath.Join(facts, "model.safetensors"))
	outputOf(t, home, "export", "latest", "c01", "--round", "0", "-o", filepath.Join(facts, "initial.safetensors"))
	for name, args := range map[string][]string{
		"experiment.json": {"show", "latest", "c01", "--json"},
		"results.json":    {"results", "latest", "--format", "json"},
	} {
		if err := os.WriteFile(filepath.Join(facts, name), outputOf(t, home, args...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runPython(t, dir, interpreter, "-m", "check_one_shot", facts)
}
