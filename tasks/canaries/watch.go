package canaries

import (
	"context"
	"fmt"
	"slices"

	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
)

// Watch follows the releases of a training after each round or step, along the vectors of canaries:
// the largest cosine or, with Evidence, the sum of the evidence.
type Watch struct {
	// Canaries counts canaries that are members of the training; Unseen counts others, numbered
	// after them.
	Canaries int       `json:"canaries"`
	Unseen   int       `json:"unseen"`
	Evidence *Evidence `json:"evidence,omitempty"`
	// Records reports whether members are records, not users.
	Records bool `json:"records,omitempty"`
}

// LargestBlob is stored with the checkpoints of a watched training: a safetensors file with the
// tensor LargestTensor, the largest cosine of each canary so far, unseen ones last, or
// EvidenceTensor, the sums.
const (
	LargestBlob    = "canary-cosines"
	LargestTensor  = "largest"
	EvidenceTensor = "evidence"
)

// Following is the state of a watch. A nil Following follows nothing.
type Following struct {
	*Watch
	seed   uint64
	rate   float64 // participation rate, for Evidence
	values []float32
}

// Open reads the previous state, which is empty before the first release. A nil Watch follows
// nothing.
func (w *Watch) Open(ctx context.Context, t *tasks.Task, seed uint64, first bool) (*Following, error) {
	if w == nil {
		return nil, nil
	}
	f := &Following{Watch: w, seed: seed, values: slices.Repeat([]float32{-1}, w.Canaries+w.Unseen)}
	if w.Evidence != nil {
		clear(f.values)
	}
	var err error
	if !first {
		if f.values, err = w.Read(ctx, t, tasks.PreviousInput); err != nil {
			return nil, err
		}
		f.values = slices.Clone(f.values)
	}
	if w.Evidence != nil && w.Evidence.NoiseMultiplier > 0 {
		f.rate, err = w.participation(ctx, t)
	}
	return f, err
}

// populationInput is the input of training and aggregation.
const populationInput = "population"

// participation returns the share of a round's members in the population.
func (w *Watch) participation(ctx context.Context, t *tasks.Task) (float64, error) {
	var counts population.PartitionMetrics
	err := t.InputMetrics(ctx, populationInput, &counts)
	members := counts.Users
	if w.Records {
		members = counts.Examples
	}
	return min(1, float64(w.Evidence.Divisor)/float64(max(1, members))), err
}

// Products returns the inner products of a sum with the vectors of canaries; nil without Evidence.
func (f *Following) Products(sum []float32) []float64 {
	if f == nil || f.Evidence == nil {
		return nil
	}
	return Blocks{f.seed, f.Canaries}.Products(sum)
}

// Observe adds a release. With Evidence, others holds the Products of the sum of all other members,
// which the attacker knows, and members the participating canaries with their contributions, 0 for
// none.
func (f *Following) Observe(released []float32, others []float64, members map[int]float64) {
	switch {
	case f == nil:
	case f.Evidence != nil:
		divisor := float64(f.Evidence.Divisor)
		for i, product := range f.Products(released) {
			rate := f.rate
			if f.Evidence.Known {
				rate = 1
				if _, there := members[i]; !there {
					continue
				}
			}
			f.values[i] += float32(f.Evidence.of(float64(product*divisor)-others[i], rate))
		}
	default:
		for i, c := range (Directions{f.seed}).Cosines(released, 0, f.Canaries+f.Unseen) {
			f.values[i] = max(f.values[i], float32(c))
		}
	}
}

// Write stores the state for the next task.
func (f *Following) Write(ctx context.Context, t *tasks.Task) error {
	if f == nil {
		return nil
	}
	data, err := safetensors.Marshal([]safetensors.Tensor{{Name: f.tensor(), Shape: []int{len(f.values)}, Float32: f.values}}, nil)
	if err != nil {
		return err
	}
	return t.Put(ctx, LargestBlob, data)
}

func (w *Watch) tensor() string {
	if w.Evidence != nil {
		return EvidenceTensor
	}
	return LargestTensor
}

// Read returns the values of each canary in a checkpoint, unseen ones last.
func (w *Watch) Read(ctx context.Context, t *tasks.Task, input string) ([]float32, error) {
	data, err := t.Blob(ctx, input, LargestBlob)
	if err != nil {
		return nil, err
	}
	file, err := safetensors.Unmarshal(data)
	if err != nil {
		return nil, tasks.Permanent(fmt.Errorf("cosines of canaries: %w", err))
	}
	tensor, ok := file.Tensor(w.tensor())
	if want := w.Canaries + w.Unseen; !ok || len(tensor.Float32) != want {
		return nil, tasks.Permanent(fmt.Errorf("cosines of %d canaries; expected %d, of which %d are unseen", len(tensor.Float32), want, w.Unseen))
	}
	return tensor.Float32, nil
}
