package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"coalmine/internal/testserver"
)

// The noise is so large that five of its digits show when it is taken from the model again.
const ftrlFile = `
name: ftrl
seed: 3
data: {source: %s, vocabulary: {size: 30}, users: {words: 50}}
model: {embedding: 3, units: 4}
training:
  rounds: 21
  cohort: 4
  chunks: 2
  sampling: separated
  separation: 10
  client: {learning_rate: 1}
  privacy: {clip: 0.001, noise_multiplier: 20_000, delta: 1e-5}
  checkpoints: {every: 1, keep: 21}
grid: {axes: {training.privacy.mechanism: [{kind: blt, buffers: 2}, {kind: banded, bands: 4}, {kind: tree}]}}
`

const ftrlRounds = 21

// docs/checks/check_ftrl.py takes matrices where the server has buffers, tries every participation
// where the accountant has a theorem, and searches without derivatives.
func TestCorrelatedNoiseIsRecomputedElsewhere(t *testing.T) {
	t.Parallel()
	scipy := testserver.Python(t, "scipy")
	home := smallRunOf(t, ftrlFile, spendingText())
	for _, cell := range cellsOf(t, home) {
		dir := exportCell(t, home, cell)
		for round := range ftrlRounds + 1 {
			prints(t, "export", "latest", cell, "--home", home, "--round", fmt.Sprint(round), "-o", filepath.Join(dir, fmt.Sprintf("model%d.safetensors", round)))
		}
		runPython(t, dir, scipy, "-m", "check_ftrl", ".")
	}
}
