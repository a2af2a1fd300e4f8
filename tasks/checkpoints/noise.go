package checkpoints

import (
	"context"
	"fmt"

	"coalmine/internal/lists"
	"coalmine/models/optimizers"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
)

// NoiseBlob is stored with the checkpoints of a training with correlated noise: a safetensors file
// with the buffers for the noise of the next round, by number.
const NoiseBlob = "noise"

// ReadNoise returns the buffers of the previous round; nil in the first.
func ReadNoise(ctx context.Context, t *tasks.Task) ([][]float32, error) {
	if t.Step <= 1 {
		return nil, nil
	}
	data, err := t.Blob(ctx, tasks.PreviousInput, NoiseBlob)
	if err != nil {
		return nil, err
	}
	file, err := safetensors.Unmarshal(data)
	if err != nil {
		return nil, tasks.Permanent(fmt.Errorf("buffers of the noise: %w", err))
	}
	buffers := make([][]float32, len(file.Tensors))
	for i := range buffers {
		buffer, ok := file.Tensor(bufferName(i))
		if !ok {
			return nil, tasks.Permanent(fmt.Errorf("buffers of the noise: %d tensors without one named %s", len(buffers), bufferName(i)))
		}
		buffers[i] = buffer.Float32
	}
	return buffers, nil
}

// WriteNoise stores buffers for the next round.
func WriteNoise(ctx context.Context, t *tasks.Task, buffers [][]float32) error {
	return putVectors(ctx, t, NoiseBlob, lists.Make(len(buffers), func(i int) optimizers.NamedVector {
		return optimizers.NamedVector{Name: bufferName(i), Values: buffers[i]}
	}))
}

func bufferName(i int) string { return fmt.Sprintf("buffer %d", i) }
