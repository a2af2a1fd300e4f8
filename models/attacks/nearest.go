package attacks

import (
	"context"
	"math/rand/v2"
	"slices"

	"coalmine/internal/kernels"
)

// Neighbours is the number of nearest examples that are asked (Orekondy et al. 2018, section
// 6.1.1).
const Neighbours = 10

// nearest is the k-nearest-neighbour attack, over Euclidean distances. A class scores its share
// of the neighbours. Of examples at one distance the earlier ones are nearer.
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

// neighbour is an example at a distance, squared and less the squared norm of the row.
type neighbour struct {
	distance float64
	label    int
}

// tile is how many examples are compared with rows at once.
const tile = 256

// Score implements Attack. It goes through the data once for each call, so that rows should be
// many.
func (a *nearest) Score(ctx context.Context, rows, scores []float32) error {
	n := len(rows) / a.shape.Inputs
	found := make([][]neighbour, n)
	products := make([]float32, n*tile)
	err := a.data.Blocks(ctx, 0, func(b Block) error {
		if err := a.shape.check(b, a.data.Examples()); err != nil {
			return err
		}
		for from := 0; from < len(b.Labels); from += tile {
			to := min(from+tile, len(b.Labels))
			a.compare(rows, b.cut(from, to, a.shape.Inputs), products, found)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	clear(scores)
	for i, list := range found {
		for _, near := range list {
			scores[i*a.shape.Classes+near.label] += 1 / float32(len(list))
		}
	}
	return err
}

// compare takes the examples of a tile in among the neighbours of the rows.
func (a *nearest) compare(rows []float32, b Block, products []float32, found [][]neighbour) {
	d, m := a.shape.Inputs, len(b.Labels)
	kernels.Gemm(false, true, len(found), m, d, 1, rows, d, b.Rows, d, 0, products, m)
	for j, label := range b.Labels {
		norm := kernels.SquaredNorm(b.Rows[j*d : (j+1)*d])
		for i := range found {
			found[i] = insert(found[i], neighbour{norm - float64(2*float64(products[i*m+j])), label})
		}
	}
}

// insert keeps the Neighbours nearest, the nearest first.
func insert(list []neighbour, n neighbour) []neighbour {
	if len(list) == Neighbours {
		if n.distance >= list[Neighbours-1].distance {
			return list
		}
		list = list[:Neighbours-1]
	}
	at := len(list)
	for at > 0 && list[at-1].distance > n.distance {
		at--
	}
	return slices.Insert(list, at, n)
}
