package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
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
	interpreter := testserver.Python(t, "scipy")
	home := smallRun(t, oneShotFile)
	dir := filepath.Dir(home)
	facts := filepath.Join(dir, "c01")
	must.Do(t, os.Mkdir(facts, 0o755))
	outputOf(t, home, "export", "latest", "c01", "-o", filepath.Join(facts, "model.safetensors"))
	outputOf(t, home, "export", "latest", "c01", "--round", "0", "-o", filepath.Join(facts, "initial.safetensors"))
	for name, args := range map[string][]string{
		"experiment.json": {"show", "latest", "c01", "--json"},
		"results.json":    {"results", "latest", "--format", "json"},
	} {
		writeFile(t, filepath.Join(facts, name), outputOf(t, home, args...))
	}
	runPython(t, dir, interpreter, "-m", "check_one_shot", facts)
}

// Of two seeds without noise both estimates contradict the claim, of one the trade-off curve does,
// and no lower bound; a right cell that isn't done doesn't count.
func TestThePowerOfAuditsIsCountedElsewhere(t *testing.T) {
	t.Parallel()
	interpreter := testserver.Python(t, "json")
	cell := func(p, final float64) string {
		return fmt.Sprintf(`{"state": "done", "privacy": {"epsilon_proved": 8, "control": "no-noise"}, "training": {"noise_multiplier": 0.86}, "audit": {
			"one_run": {"epsilon_lower": 1.5, "confidence": 0.95, "trade_off": {"epsilon_lower": 2.5, "p_value": %v}},
			"one_shot": {"final": {"epsilon": %v, "standard_error": 2}, "all_iterates": {"epsilon": 12, "standard_error": 2}}}}`, p, final)
	}
	dir := t.TempDir()
	results := fmt.Sprintf(`{"cells": [%s, %s, {"state": "failed"}]}`, cell(0.01, 11.3), cell(0.06, 60))
	writeFile(t, filepath.Join(dir, "results.json"), results)
	got := runPython(t, dir, interpreter, "-m", "power_of_audits", "results.json")
	want := "| no-noise | 0.86 | 8 | 1.5 (to 1.5), 0/2 | 2.5 (to 2.5), 1/2 | 35.6 (to 60), 2/2 | 12 (to 12), 2/2 |"
	if !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
