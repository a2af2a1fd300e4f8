package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"coalmine/internal/testserver"
	"coalmine/tasks/checkpoints"
)

// transformersFile trains transformers on words and bytes by FedAvg, DP-FedAvg, DP-FTRL, SGD and DP-SGD.
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
    - {data: {level: word, vocabulary: {size: 80}}, model.adapters: {rank: 3, alpha: 6}, training.privacy: {clip: 0.5, noise_multiplier: 0.1, delta: 1e-4}}
    - data: {level: word, vocabulary: {size: 80}}
      model.adapters: {rank: 2, matrices: [attention.key, attention.output, feed.input, feed.output]}
      training.server: {optimizer: adam, learning_rate: 0.05}
      training.sampling: separated
      training.privacy: {clip: 0.5, noise_multiplier: 0.1, delta: 1e-4, mechanism: {kind: tree}}
    - {data: {level: word, vocabulary: {size: 80}}, training.algorithm: sgd, training.rounds: 60}
    - data: {level: word, vocabulary: {size: 80}}
      model.adapters: {rank: 3, alpha: 6}
      training: {algorithm: sgd, rounds: 30, client: {optimizer: adam, learning_rate: 0.02, gradient_clip: null}, privacy: {clip: 0.5, noise_multiplier: 0.1, delta: 1e-4}}
      audit.neighbours: {}
`

// centralFile trains by SGD and DP-SGD, natively and in PyTorch.
const centralFile = `
name: central
data: {source: %s, vocabulary: {size: 80}, users: {words: 150}, test: {fraction: 10%%}}
canaries: {words: 4, per_configuration: 2, user_probability: 1/3, example_probability: 1}
model: {kind: cifg-lstm, embedding: 16, units: 24}
training: {algorithm: sgd, rounds: 50, cohort: 16, steps_per_task: 20, client: {learning_rate: 0.5}}
audit: {random_sampling: {references: 300, exact: true}}
grid:
  axes:
    model.kind: [cifg-lstm, gru]
    training.privacy: [null, {clip: 0.3, noise_multiplier: 0.5, delta: 1e-4}]
    training.engine: [native, pytorch]
`

// Steps in PyTorch end in the native model: to the rounding of sums without clipping, and to that of norms with it. The
// environment is shared by tests.
func TestPyTorchCentralTrainingMatchesNativeElsewhere(t *testing.T) {
	testserver.WithoutRace(t)
	setPython(t, testserver.Python(t, "torch"))
	home, dir := smallRun(t, centralFile), t.TempDir()
	model := func(cell int, round string) []float32 {
		path := filepath.Join(dir, strconv.Itoa(cell)+"-"+round)
		prints(t, "export", "latest", fmt.Sprintf("c%02d", cell), "--round", round, "-o", path, "--home", home)
		return modelIn(t, path).Params
	}
	for cell := 1; cell <= 8; cell += 2 {
		bound := 1e-5
		if cell%4 == 3 {
			bound = 1e-4 // with privacy
		}
		start, native, torch := model(cell, "0"), model(cell, "50"), model(cell+1, "50")
		change := distance(native, start)
		if apart := distance(torch, native); !(apart <= bound*change) || change == 0 {
			t.Errorf("cell %d: the models are %.2g of the change %.2g apart; expected at most %.2g", cell, apart/change, change, bound)
		}
	}
}

func distance(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += math.Pow(float64(a[i])-float64(b[i]), 2)
	}
	return math.Sqrt(sum)
}

// adaptersFile has clients of one step each, about half of which are clipped.
const adaptersFile = `
name: adapters
data: {source: %s, vocabulary: {size: 60}, users: {words: 150}, test: {fraction: 80%%}}
canaries: {words: 5, per_configuration: 1, user_probability: 1/5, example_probability: 1/2, held_back: 1}
model: {kind: transformer, embedding: 8, heads: 2, context: 24, adapters: {rank: 2, alpha: 3, matrices: [attention.query, attention.value, feed.input]}}
training: {engine: pytorch, rounds: 2, cohort: 4, chunks: 2, client: {learning_rate: 20, batch: 1000, weight_decay: 0.01}, privacy: {clip: 0.05, noise_multiplier: 0, delta: 1e-4}}
audit: {random_sampling: {references: 50}}
`

// The environment is shared by tests.
func TestAdapterRoundsAreRecomputedElsewhere(t *testing.T) {
	testserver.WithoutRace(t)
	python := testserver.Python(t, "torch")
	setPython(t, python)
	home := smallRun(t, adaptersFile)
	var dirs []string
	for round := 1; round <= 2; round++ {
		dir := filepath.Join(t.TempDir(), strconv.Itoa(round))
		dirs = append(dirs, dir)
		prints(t, "data", "export", "latest", "c01", "--only", "population,cohorts", "--home", home, "-o", dir)
		prints(t, "export", "latest", "c01", "--home", home, "--round", strconv.Itoa(round-1), "-o", filepath.Join(dir, "before.safetensors"))
		prints(t, "export", "latest", "c01", "--home", home, "--round", strconv.Itoa(round), "-o", filepath.Join(dir, "model.safetensors"))
		writeFile(t, filepath.Join(dir, "experiment.json"), prints(t, "show", "latest", "c01", "--home", home, "--json"))
	}
	runPython(t, ".", append([]string{python, "-m", "check_adapters"}, dirs...)...)
}

// checkFrozen compares the exported model of a cell with adapters, trained with noise, with its initial
// one: the factors differ, all other tensors are equal to the bit.
func checkFrozen(t *testing.T, home, cell, dir string) {
	t.Helper()
	prints(t, "export", "latest", cell, "--home", home, "--round", "0", "-o", filepath.Join(dir, "initial.safetensors"))
	var models [2]*checkpoints.Model
	for i, name := range []string{"initial.safetensors", "model.safetensors"} {
		models[i] = modelIn(t, filepath.Join(dir, name))
	}
	network := models[1].Network
	if network.Trained() == network.Parameters() {
		t.Errorf("%s: all %d parameters are trained", cell, network.Parameters())
	}
	for _, tensor := range network.Tensors() {
		equal := slices.Equal(tensor.View(models[0].Params), tensor.View(models[1].Params))
		if trained := tensor.Offset < network.Trained(); trained == equal {
			t.Errorf("%s: %s is trained: %v, and equal after six rounds with noise: %v", cell, tensor, trained, equal)
		}
	}
}

// The environment is shared by tests.
func TestATransformerIsTrainedAndAuditedElsewhere(t *testing.T) {
	testserver.WithoutRace(t)
	python := testserver.Python(t, "torch")
	setPython(t, python)
	home := smallRun(t, transformersFile)
	dirs := exportCells(t, home)
	if len(dirs) != 8 {
		t.Fatalf("%d cells, want 8", len(dirs))
	}
	for _, cell := range []int{5, 6, 8} {
		checkFrozen(t, home, fmt.Sprintf("c%02d", cell), dirs[cell-1])
	}
	for _, program := range []string{"check_export", "check_audit"} {
		runPython(t, ".", append([]string{python, "-m", program}, dirs...)...)
	}
}
