package training

import (
	"encoding/json"
	"fmt"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/tasks/taskstest"
)

// vector is a client's training: clients/python/tests/test_torch.py repeats it in PyTorch.
type vector struct {
	Model    models.Config `json:"model"`
	Local    Local         `json:"local"`
	Epochs   int           `json:"epochs"`
	Examples [][]int32     `json:"examples"`
	Batches  [][]int       `json:"batches"`
	Before   []float32     `json:"before"`
	After    []float32     `json:"after"`
	Loss     float64       `json:"loss"`
	Targets  int64         `json:"targets"`
}

// The trainer in PyTorch is compared with the native one: all recurrent kinds, rules and settings.
func TestPyTorchTrainerVectorsAreCurrent(t *testing.T) {
	t.Parallel()
	var lines []byte
	add := func(model models.Config, local Local) {
		v := trainedVector(t, model, local)
		line := must.Get(json.Marshal(v))(t)
		lines = fmt.Appendf(lines, "%s\n", line)
	}
	local := Local{Optimizer: sgd, LearningRate: 0.5, Batch: 2, GradientClip: 0.3, WeightDecay: 0.1, Proximal: 0.5}
	for _, kind := range []models.Kind{models.CIFGLSTM, models.LSTM, models.GRU} {
		small := models.Config{Kind: kind, Vocabulary: 11, Embedding: 5, Units: 6}
		add(small, local)
		small.Layers, small.Projection, small.Untied = 2, models.Unprojected, true
		add(small, local)
	}
	for _, rule := range optimizers.Kinds() {
		config := must.Get(optimizers.Defaults(rule))(t)
		if config.Epsilon > 0 {
			config.Epsilon = max(config.Epsilon, 1e-3) // or a gradient of nearly 0 makes a step whose sign is rounding
		}
		add(models.Config{Kind: models.GRU, Vocabulary: 11, Embedding: 5, Units: 6}, Local{Optimizer: config, LearningRate: 0.1, Batch: 3})
	}
	taskstest.File(t, "../../clients/python/tests/native.jsonl", lines)
}

// trainedVector trains a client of five sentences.
func trainedVector(t *testing.T, config models.Config, local Local) vector {
	t.Helper()
	network, err := models.New(config)
	must.Do(t, err)
	rng := seeds.Stream(9, seeds.Weights)
	p := ClientsParams{Seed: 9, Local: local, Epochs: 2}
	c := chunkSum{params: &p, start: &start{network: network, trained: network.Init(rng)}}
	if c.learner, err = newLearnerWith(network, nil, local); err != nil {
		t.Fatal(err)
	}
	c.learner.anchor = c.start.trained
	v := vector{Model: config, Local: local, Epochs: p.Epochs, Before: c.start.trained}
	for _, length := range []int{4, 6, 2, 3, 6} {
		sentence := make([]int32, length)
		for i := range sentence {
			sentence[i] = int32(rng.IntN(config.Vocabulary))
		}
		v.Examples = append(v.Examples, sentence)
	}
	v.Batches = c.places(len(v.Examples), 1, 3)
	steps, err := c.train(t.Context(), v.Examples, 1, 3)
	if err != nil || steps != len(v.Batches) {
		t.Fatalf("%d steps of %d, %v", steps, len(v.Batches), err)
	}
	v.After, v.Targets, v.Loss = c.learner.params, c.metrics.Tokens, c.metrics.LossSum/float64(c.metrics.Tokens)
	return v
}
