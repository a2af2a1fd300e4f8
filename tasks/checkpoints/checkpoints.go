// Package checkpoints reads and writes what the tasks of a training chain
// hand on: the model, the state of its optimizer, and the rows of metrics that
// a segment of steps collects.
package checkpoints

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"coalmine/models"
	"coalmine/models/architectures"
	"coalmine/models/optimizers"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
)

// configField is the metadata field of a model file that holds its
// models.Config as JSON: a checkpoint describes itself.
const configField = "model"

// Model is a decoded checkpoint. Tasks of one worker share it: Params MUST NOT
// be changed.
type Model struct {
	Network models.Network
	// Params is the flat vector of parameters.
	Params []float32
}

// Read decodes the checkpoint of the named input.
func Read(ctx context.Context, t *tasks.Task, input string) (*Model, error) {
	key, err := t.Input(input)
	if err != nil {
		return nil, err
	}
	return tasks.Memoize(t, key, tasks.ModelBlob, func() (*Model, int64, error) {
		data, err := t.Blob(ctx, input, tasks.ModelBlob)
		if err != nil {
			return nil, 0, err
		}
		m, err := Decode(data)
		if err != nil {
			return nil, 0, tasks.Permanent(fmt.Errorf("checkpoint %s: %w", key.Short(), err))
		}
		return m, int64(len(data)), nil
	})
}

// NewScorer prepares the model for scoring. It is an error unless it is a language model.
func (m *Model) NewScorer() (*models.Scorer, error) {
	language, err := models.LanguageOf(m.Network)
	if err != nil {
		return nil, err
	}
	return language.NewScorer(m.Params)
}

// ReadScorer prepares the checkpoint of the named input for scoring, once for
// all tasks of a worker.
func ReadScorer(ctx context.Context, t *tasks.Task, input string) (*models.Scorer, error) {
	key, err := t.Input(input)
	if err != nil {
		return nil, err
	}
	return tasks.Memoize(t, key, "scorer", func() (*models.Scorer, int64, error) {
		m, err := Read(ctx, t, input)
		if err != nil {
			return nil, 0, err
		}
		s, err := m.NewScorer()
		if err != nil {
			return nil, 0, tasks.Permanent(err)
		}
		return s, s.Bytes(), nil
	})
}

// Write stores the parameters as the task's checkpoint.
func Write(ctx context.Context, t *tasks.Task, network models.Network, params []float32) error {
	data, err := Encode(network, params, nil)
	if err != nil {
		return err
	}
	return t.Put(ctx, tasks.ModelBlob, data)
}

// Encode makes a model file: the named tensors of the network, its
// configuration in the metadata, and whatever metadata is added.
func Encode(network models.Network, params []float32, added map[string]string) ([]byte, error) {
	if err := models.CheckParameters(network, params); err != nil {
		return nil, err
	}
	config, err := json.Marshal(network.Config())
	if err != nil {
		return nil, err
	}
	metadata := map[string]string{configField: string(config)}
	for name, value := range added {
		metadata[name] = value
	}
	var tensors []safetensors.Tensor
	for _, t := range network.Tensors() {
		tensors = append(tensors, safetensors.Tensor{Name: t.Name, Shape: t.Shape, Float32: t.View(params)})
	}
	return safetensors.Marshal(tensors, metadata)
}

// MaxFile is the size of the largest model file there may be, in bytes.
const MaxFile = 8 + safetensors.MaxHeader + 4*models.MaxParameters

// Decode reads a model file. Every tensor must be there with its shape, no other
// may be, and all numbers must be finite.
func Decode(data []byte) (*Model, error) {
	file, err := safetensors.Unmarshal(data)
	if err != nil {
		return nil, err
	}
	network, err := networkOf(file)
	if err != nil {
		return nil, err
	}
	tensors, err := tensorsOf(network, file)
	if err != nil {
		return nil, err
	}
	params := make([]float32, network.Parameters())
	for i, t := range network.Tensors() {
		values := t.View(params)
		copy(values, tensors[i])
		if _, err := models.FiniteNorm("tensor", values); err != nil {
			return nil, fmt.Errorf("model file: tensor %q has values that are not finite: the model's training has diverged, or the file is damaged", t.Name)
		}
	}
	return &Model{network, params}, nil
}

func networkOf(file safetensors.File) (models.Network, error) {
	text, ok := file.Metadata[configField]
	if !ok {
		return nil, fmt.Errorf("model file has no metadata field %q with the model's configuration", configField)
	}
	var config models.Config
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return nil, fmt.Errorf("model file: metadata field %q: %w", configField, err)
	}
	return architectures.New(config)
}

// tensorsOf are the values of the model's tensors, in its order. Nothing that the
// configuration claims is believed, nor allocated, before the file has it.
func tensorsOf(network models.Network, file safetensors.File) ([][]float32, error) {
	want := network.Tensors()
	values := make([][]float32, len(want))
	for i, w := range want {
		t, ok := file.Tensor(w.Name)
		if !ok {
			return nil, fmt.Errorf("model file has no tensor %q", w.Name)
		}
		if t.Float32 == nil || !slices.Equal(t.Shape, w.Shape) {
			return nil, fmt.Errorf("model file: tensor %q has shape %v, want float32 of %v: part of it is missing, or the configuration is that of another model", w.Name, t.Shape, w.Shape)
		}
		values[i] = t.Float32
	}
	if len(file.Tensors) != len(want) {
		return nil, fmt.Errorf("model file has %d tensors, want the %d of a %s", len(file.Tensors), len(want), network.Config().Kind)
	}
	return values, nil
}

// ReadOptimizer restores the state that the step before left, if the rule has
// any. The first step of a training has none before it and must not call this.
func ReadOptimizer(ctx context.Context, t *tasks.Task, rule optimizers.Optimizer) error {
	if len(rule.State()) == 0 {
		return nil
	}
	data, err := t.Blob(ctx, tasks.PreviousInput, tasks.OptimizerBlob)
	if err != nil {
		return err
	}
	file, err := safetensors.Unmarshal(data)
	if err != nil {
		return tasks.Permanent(fmt.Errorf("optimizer state: %w", err))
	}
	var state []optimizers.NamedVector
	for _, tensor := range file.Tensors {
		state = append(state, optimizers.NamedVector{Name: tensor.Name, Values: tensor.Float32})
	}
	if err := rule.Restore(state); err != nil {
		return tasks.Permanent(err)
	}
	return nil
}

// WriteOptimizer stores the rule's state beside the checkpoint, if it has any.
func WriteOptimizer(ctx context.Context, t *tasks.Task, rule optimizers.Optimizer) error {
	state := rule.State()
	if len(state) == 0 {
		return nil
	}
	var tensors []safetensors.Tensor
	for _, v := range state {
		tensors = append(tensors, safetensors.Tensor{Name: v.Name, Shape: []int{len(v.Values)}, Float32: v.Values})
	}
	data, err := safetensors.Marshal(tensors, nil)
	if err != nil {
		return err
	}
	return t.Put(ctx, tasks.OptimizerBlob, data)
}
