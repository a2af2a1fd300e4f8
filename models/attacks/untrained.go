// This file has the attacks without training: nearest neighbours, found without holding all vectors in
// memory, and the cosine.

package attacks

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/lists"
)

// tile is the number of vectors compared with the queries at once.
const tile = 256

// Search finds, for each query, the K nearest of the vectors passed to Show. Distances
// are computed in float32, as |v|² - 2 q·v: if the distances of two vectors agree to about 1e-6 of
// |v|², either may count as nearer. In a tie, the vector shown earlier is nearer.
type Search struct {
	k, dimension int
	queries      []float32
	found        [][]neighbour
	products     []float32
}

// neighbour is a vector and its squared distance less the squared norm of the query.
type neighbour struct {
	distance float64
	id       int
}

// NewSearch returns a search for the k nearest vectors of each query; k is at least 1. queries
// holds dimension values per query, one query after another, and is only read.
func NewSearch(queries []float32, dimension, k int) *Search {
	n := len(queries) / dimension
	return &Search{k: k, dimension: dimension, queries: queries, found: make([][]neighbour, n), products: make([]float32, n*tile)}
}

// Show compares vectors, stored one after another, with all queries. They have the dimension of the
// queries, and ids holds one id each. It returns early with the error of a cancelled context.
func (s *Search) Show(ctx context.Context, vectors []float32, ids []int) error {
	for from := 0; from < len(ids); from += tile {
		to := min(from+tile, len(ids))
		s.compare(vectors[from*s.dimension:to*s.dimension], ids[from:to])
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// compare adds the vectors of a tile to the neighbours of the queries.
func (s *Search) compare(vectors []float32, ids []int) {
	d, m := s.dimension, len(ids)
	kernels.Gemm(false, true, len(s.found), m, d, 1, s.queries, d, vectors, d, 0, s.products, m)
	for j, id := range ids {
		norm := kernels.SquaredNorm(vectors[j*d : (j+1)*d])
		for i := range s.found {
			s.insert(i, neighbour{norm - float64(2*float64(s.products[i*m+j])), id})
		}
	}
}

// insert keeps the k nearest vectors of a query, nearest first.
func (s *Search) insert(query int, n neighbour) {
	list := s.found[query]
	if len(list) == s.k {
		if n.distance >= list[s.k-1].distance {
			return
		}
		list = list[:s.k-1]
	}
	at := len(list)
	for at > 0 && list[at-1].distance > n.distance {
		at--
	}
	s.found[query] = slices.Insert(list, at, n)
}

// Nearest returns the ids of a query's k neighbours, nearest first; fewer if fewer were shown.
func (s *Search) Nearest(query int) []int {
	return lists.Map(s.found[query], func(n neighbour) int { return n.id })
}

// Neighbours is the number of nearest examples that vote (Orekondy et al. 2018, section 6.1.1).
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

// cosine scores a class by the cosine between an update and the mean update of the class: a
// baseline without training.
type cosine struct {
	shape Shape
	means []float32 // [classes, inputs], of length 1; 0 for a class without examples
}

func newCosine(s Shape, _ Options, _ *rand.Rand) Attack { return &cosine{shape: s} }

// Train implements Attack: sums are in float64, in the order of the source.
func (a *cosine) Train(ctx context.Context, data Data) (Training, error) {
	d := a.shape.Inputs
	sums := make([]float64, a.shape.Classes*d)
	err := data.Blocks(ctx, 0, func(b Block) error {
		if err := a.shape.check(b, data.Examples()); err != nil {
			return err
		}
		addRows(sums, b, d)
		return ctx.Err()
	})
	a.means = make([]float32, len(sums))
	for i := 0; i < len(sums); i += d {
		unit(a.means[i:i+d], sums[i:i+d])
	}
	return Training{}, err
}

func addRows(sums []float64, b Block, inputs int) {
	for i, label := range b.Labels {
		sum := sums[label*inputs : (label+1)*inputs]
		for j, value := range b.Rows[i*inputs : (i+1)*inputs] {
			sum[j] += float64(value)
		}
	}
}

func unit(dst []float32, x []float64) {
	square := 0.0
	for _, v := range x {
		square += float64(v * v)
	}
	if square == 0 {
		return
	}
	norm := math.Sqrt(square)
	for i, v := range x {
		dst[i] = float32(v / norm)
	}
}

// Score implements Attack. An update of zeros scores 0.
func (a *cosine) Score(_ context.Context, rows, scores []float32) error {
	d, classes := a.shape.Inputs, a.shape.Classes
	n := len(rows) / d
	kernels.Gemm(false, true, n, classes, d, 1, rows, d, a.means, d, 0, scores, classes)
	for i := range n {
		if norm := math.Sqrt(kernels.SquaredNorm(rows[i*d : (i+1)*d])); norm > 0 {
			kernels.Scale(float32(1/norm), scores[i*classes:(i+1)*classes])
		}
	}
	return nil
}
