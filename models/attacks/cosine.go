package attacks

import (
	"context"
	"math"
	"math/rand/v2"

	"coalmine/internal/kernels"
)

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
