package canaries

import (
	"context"
	"fmt"
	"slices"

	"coalmine/storage/safetensors"
	"coalmine/tasks"
)

// Watch follows the cosines of the canaries with the update that a server releases after
// each round.
type Watch struct {
	// Canaries are clients of the training; Unseen ones, numbered after them, are not.
	Canaries int `json:"canaries"`
	Unseen   int `json:"unseen"`
}

// LargestBlob travels with the checkpoints of a training that is watched: a safetensors file
// with the tensor LargestTensor, the largest cosine of each canary so far, unseen ones last.
const (
	LargestBlob   = "canary-cosines"
	LargestTensor = "largest"
)

// Observe takes in the update that a round released, and hands the largest cosines on. A
// nil Watch does nothing.
func (w *Watch) Observe(ctx context.Context, t *tasks.Task, seed uint64, released []float32) error {
	if w == nil {
		return nil
	}
	largest, err := w.before(ctx, t)
	if err != nil {
		return err
	}
	cosines := Directions{seed}.Cosines(released, 0, w.Canaries+w.Unseen)
	for i, c := range cosines {
		largest[i] = max(largest[i], float32(c))
	}
	return w.put(ctx, t, largest)
}

// Keep hands them on as they are: a round has released nothing.
func (w *Watch) Keep(ctx context.Context, t *tasks.Task) error {
	if w == nil {
		return nil
	}
	largest, err := w.before(ctx, t)
	if err != nil {
		return err
	}
	return w.put(ctx, t, largest)
}

// before are those of the round before, the least that there can be before the first.
func (w *Watch) before(ctx context.Context, t *tasks.Task) ([]float32, error) {
	if t.Step <= 1 {
		return slices.Repeat([]float32{-1}, w.Canaries+w.Unseen), nil
	}
	largest, err := w.Read(ctx, t, tasks.PreviousInput)
	return slices.Clone(largest), err
}

func (w *Watch) put(ctx context.Context, t *tasks.Task, largest []float32) error {
	data, err := safetensors.Marshal([]safetensors.Tensor{{Name: LargestTensor, Shape: []int{len(largest)}, Float32: largest}}, nil)
	if err != nil {
		return err
	}
	return t.Put(ctx, LargestBlob, data)
}

// Read returns the largest cosines that a checkpoint has with it, unseen canaries last.
func (w *Watch) Read(ctx context.Context, t *tasks.Task, input string) ([]float32, error) {
	data, err := t.Blob(ctx, input, LargestBlob)
	if err != nil {
		return nil, err
	}
	file, err := safetensors.Unmarshal(data)
	if err != nil {
		return nil, tasks.Permanent(fmt.Errorf("cosines of canaries: %w", err))
	}
	tensor, ok := file.Tensor(LargestTensor)
	if want := w.Canaries + w.Unseen; !ok || len(tensor.Float32) != want {
		return nil, tasks.Permanent(fmt.Errorf("cosines of %d canaries; expected %d, of which %d are unseen", len(tensor.Float32), want, w.Unseen))
	}
	return tensor.Float32, nil
}
