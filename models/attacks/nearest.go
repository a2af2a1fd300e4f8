package attacks

import (
	"context"
	"math/rand/v2"
)

// Neighbours is the number of nearest examples that vote (Orekondy et al. 2018, section
// 6.1.1).
const Neighbours = 10

// nearest is the k-nearest-neighbour attack, over Euclidean distances. The score of a class is its
// share of the neighbours. In a tie, earlier examples are nearer.
type nearest struct {
	shape Shape
	data  Data
}

func newNearest(s Shape, _ Options, _ *rand.Rand) Attack { return &nearest{shape: s} }

// Train implements Attack: it remembers the data.
func (a *nearest) Train(_ context.Context, data Data) (Training, error) {
	a.data = data
	return Training{}, nil
}

// Score implements Attack. Each call reads the data once, so pass many rows.
func (a *nearest) Score(ctx context.Context, rows, scores []float32) error {
	search := NewSearch(rows, a.shape.Inputs, Neighbours)
	err := a.data.Blocks(ctx, 0, func(b Block) error {
		if err := a.shape.check(b, a.data.Examples()); err != nil {
			return err
		}
		return search.Show(ctx, b.Rows, b.Labels)
	})
	clear(scores)
	for i := range len(rows) / a.shape.Inputs {
		near := search.Nearest(i)
		for _, class := range near {
			scores[i*a.shape.Classes+class] += 1 / float32(len(near))
		}
	}
	return err
}
