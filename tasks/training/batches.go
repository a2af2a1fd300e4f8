package training

import (
	"fmt"
	"maps"
	"slices"
)

// Batches describes how short batches lower the learning rate of clients: a step over part of a batch
// takes the same part of the rate.
type Batches struct {
	// Clients is the number of clients with examples; Short is the number with fewer examples than
	// a batch.
	Clients int `json:"clients"`
	Short   int `json:"short"`
	// Batch is the number of examples in a full batch, and LearningRate the rate of a step over a
	// full batch.
	Batch        int     `json:"batch"`
	LearningRate float64 `json:"learning_rate"`
	// EffectiveLearningRate is the mean over clients of the mean over a client's steps in a round.
	EffectiveLearningRate float64 `json:"effective_learning_rate"`
}

// NewBatches returns the Batches of clients that train for the given epochs, and at most the given
// steps (0: all), in a round. sizes counts the clients by number of examples. The result is nil if
// fewer than a tenth of the clients have less than a batch.
func NewBatches(local Local, epochs, steps int, sizes map[int]int) *Batches {
	b := &Batches{Batch: local.Batch, LearningRate: local.LearningRate}
	for _, examples := range slices.Sorted(maps.Keys(sizes)) {
		if examples == 0 {
			continue
		}
		clients := sizes[examples]
		b.Clients += clients
		if examples < local.Batch {
			b.Short += clients
		}
		b.EffectiveLearningRate += float64(clients) * local.LearningRate * meanShare(batchSizes(examples, local.Batch, epochs, steps), local.Batch)
	}
	if b.Short == 0 || 10*b.Short < b.Clients {
		return nil
	}
	b.EffectiveLearningRate /= float64(b.Clients)
	return b
}

// meanShare returns the mean of the batches' sizes as shares of a full batch.
func meanShare(sizes []int, batch int) float64 {
	examples := 0
	for _, n := range sizes {
		examples += n
	}
	return float64(examples) / float64(batch*len(sizes))
}

// String returns a sentence without a full stop.
func (b *Batches) String() string {
	return fmt.Sprintf("training.client.batch is %d, and %d of %d clients have fewer examples: a step over fewer takes its share of the learning rate, so that clients train at %.3g on average in place of %.3g",
		b.Batch, b.Short, b.Clients, b.EffectiveLearningRate, b.LearningRate)
}

// batchSizes returns the sizes of a client's batches in a round: in each epoch all examples, in batches
// of the given size, and at most the given steps (0: all).
func batchSizes(examples, batch, epochs, steps int) []int {
	var sizes []int
	for range epochs {
		for left := examples; left > 0; left -= max(1, batch) {
			if steps > 0 && len(sizes) == steps {
				return sizes
			}
			sizes = append(sizes, min(batch, left))
		}
	}
	return sizes
}
