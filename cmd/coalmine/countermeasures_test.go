package main

import (
	"testing"
)

// stoppedFile overtrains on little text, so that early stopping takes a model from the
// middle of the training.
const stoppedFile = `
name: stopped
data: {source: %s, vocabulary: {size: 60}, users: {words: 60}, partition: iid, share: 1/2, test: {fraction: 10%%}, validation: {fraction: 20%%}}
canaries: {words: 4, per_configuration: 3, user_probability: 1/4, example_probability: 1, held_back: 2}
model: {kind: gru, embedding: 12, units: 24, projection: 0, untied: true}
training:
  algorithm: sgd
  rounds: 205
  cohort: 8
  steps_per_task: 10
  early_stopping: {every: 20, patience: 2}
  client: {optimizer: adam, learning_rate: 0.02}
audit: {every: 50, random_sampling: {references: 300, exact: true}}
`

func TestWhatEarlyStoppingTookGivesItsLossElsewhere(t *testing.T) {
	t.Parallel()
	home := smallRun(t, stoppedFile)
	dirs := exportCells(t, home)
	numpy := python(t, "numpy")
	if numpy == "" {
		t.Skip("no python3 with NumPy: scripts/setup.sh installs it where it may")
	}
	runPython(t, ".", append([]string{numpy, "-c", withoutTorch, "check_export"}, dirs...)...)
	runPython(t, ".", append([]string{numpy, "-m", "check_data"}, dirs...)...)
}
