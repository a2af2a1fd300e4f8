package training

import (
	"fmt"
	"maps"
	"slices"
)

// Batches say by how much batches that are not full lower the learning rate of clients: a step
// over fewer examples than a batch has takes its share of the rate.
type Batches struct {
	// Clients have examples; Short of them have fewer than one batch.
	Clients int `json:"clients"`
	Short   int `json:"short"`
	// Batch is the number of examples of a full batch, and LearningRate that of a step over one.
	Batch        int     `json:"batch"`
	LearningRate float64 `json:"learning_rate"`
	// EffectiveLearningRate is the mean over clients of the mean over a client's steps in a round.
	EffectiveLearningRate float64 `json:"effective_learning_rate"`
}

// NewBatches says it of clients that make so many epochs, and steps at most (0: all), in a round.
// sizes counts the clients with each number of examples. It is nil where fewer than a tenth of them
// have less than a batch.
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

// meanShare is the mean of the batches' shares of a full batch.
func meanShare(sizes []int, batch int) float64 {
	examples := 0
	for _, n := range sizes {
		examples += n
	}
	return float64(examples) / float64(batch*len(sizes))
}

// String is a sentence for people, without a full stop.
func (b *Batches) String() string {
	return fmt.Sprintf("training.client.batch is %d, and %d of %d clients have fewer examples: a step over fewer takes its share of the learning rate, so that clients train at %.3g on average in place of %.3g",
		b.Batch, b.Short, b.Clients, b.EffectiveLearningRate, b.LearningRate)
}

// batchSizes are those of the batches that a client with so many examples trains on in a round: in
// each epoch all examples, in batches of the given size; of the steps so many at most, 0 for all.
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
