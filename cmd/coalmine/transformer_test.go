package main

import (
	"testing"

	"coalmine/internal/build"
	"coalmine/internal/testserver"
)

// transformersFile trains transformers on words and bytes by FedAvg, DP-FedAvg and DP-FTRL.
const transformersFile = `
name: transformers
data: {source: %s, users: {words: 150}, test: {fraction: 10%%}}
canaries: {words: 6, per_configuration: 2, user_probability: 1/3, example_probability: 1, held_back: 2}
model: {kind: transformer, embedding: 8, layers: 2, heads: 2, context: 40}
training: {engine: pytorch, pytorch: {users: 4}, rounds: 6, cohort: 10, client: {learning_rate: 1, gradient_clip: 1}}
audit:
  random_sampling: {references: 300, exact: true}
  beam_search: {width: 3}
grid:
  axes:
    data: [{level: word, vocabulary: {size: 80}}, {level: byte, sequence: 40}]
  include:
    - {data: {level: word, vocabulary: {size: 80}}, model.untied: true, training.privacy: {clip: 0.5, noise_multiplier: 0.1, delta: 1e-4}}
    - {data: {level: word, vocabulary: {size: 80}}, training.sampling: separated, training.privacy: {clip: 0.5, noise_multiplier: 0.1, delta: 1e-4, mechanism: {kind: tree}}}
`

// The environment is shared by tests.
func TestATransformerIsTrainedAndAuditedElsewhere(t *testing.T) {
	if build.Race {
		t.Skip("a training is arithmetic that takes long under the race detector; other tests race the same goroutines")
	}
	python := testserver.Python(t, "torch")
	setPython(t, python)
	dirs := exportCells(t, smallRun(t, transformersFile))
	if len(dirs) != 4 {
		t.Fatalf("%d cells, want 4", len(dirs))
	}
	for _, program := range []string{"check_export", "check_audit"} {
		runPython(t, ".", append([]string{python, "-m", program}, dirs...)...)
	}
}
