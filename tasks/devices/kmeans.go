package devices

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// lloydSteps is the largest number of moves of the means.
const lloydSteps = 25

// cluster finds k means of vectors, of which there are at least k: k-means++ (Arthur and
// Vassilvitskii 2007), and then Lloyd's steps until no vector changes its mean. A mean that loses
// all its vectors does not move. Sums run in the order of the vectors.
func cluster(ctx context.Context, vectors [][]float32, k int, rng *rand.Rand) ([][]float32, error) {
	means := spread(vectors, k, rng)
	modes := make([]int, len(vectors))
	for range lloydSteps {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		moved := false
		for i, x := range vectors {
			mode := nearest(x, means)
			moved = moved || mode != modes[i]
			modes[i] = mode
		}
		if !moved {
			break
		}
		move(means, vectors, modes)
	}
	return means, nil
}

// spread draws the first means: each with a probability proportional to the squared distance to the
// earlier means. If all distances are 0, it is the first vector.
func spread(vectors [][]float32, k int, rng *rand.Rand) [][]float32 {
	means := [][]float32{slices.Clone(vectors[rng.IntN(len(vectors))])}
	distances := slices.Repeat([]float64{math.Inf(1)}, len(vectors))
	for len(means) < k {
		var sum float64
		for i, x := range vectors {
			distances[i] = min(distances[i], distance(x, means[len(means)-1], distances[i]))
			sum += distances[i]
		}
		left, chosen := float64(rng.Float64()*sum), 0
		for i, d := range distances {
			if left -= d; d > 0 && left < 0 {
				chosen = i
				break
			}
		}
		means = append(means, slices.Clone(vectors[chosen]))
	}
	return means
}

// nearest returns the index of the mean closest to x, the first in a tie.
func nearest(x []float32, means [][]float32) (mean int) {
	least := math.Inf(1)
	for i, m := range means {
		if d := distance(x, m, least); d < least {
			mean, least = i, d
		}
	}
	return mean
}

// distance returns the squared Euclidean distance, or any value of at least enough if it exceeds
// that.
func distance(x, y []float32, enough float64) float64 {
	var sum float64
	for i := range x {
		d := float64(x[i] - y[i])
		sum += float64(d * d)
		if sum >= enough && i%16 == 15 {
			return sum
		}
	}
	return sum
}

// move moves each mean to the mean of its vectors.
func move(means, vectors [][]float32, modes []int) {
	sums, counts := make([][]float64, len(means)), make([]int, len(means))
	for i, x := range vectors {
		mode := modes[i]
		if sums[mode] == nil {
			sums[mode] = make([]float64, len(x))
		}
		counts[mode]++
		for j, v := range x {
			sums[mode][j] += float64(v)
		}
	}
	for mode, sum := range sums {
		for j, v := range sum {
			means[mode][j] = float32(v / float64(counts[mode]))
		}
	}
}
