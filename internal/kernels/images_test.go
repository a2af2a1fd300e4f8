package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Bits of any kind include infinities, NaNs and both zeros; small integers tie.
func TestSetsAgreeOnPooling(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(51, 0))
	for channels := 1; channels <= 70; channels++ {
		count := 1 + channels%3
		below := 2*count*channels + channels%5
		x, dy := anyBits(rng, below+2*count*channels), anyBits(rng, count*channels)
		if channels%2 == 0 {
			for i := range x {
				x[i] = float32(math.Copysign(float64(rng.IntN(3)), rng.NormFloat64()))
			}
		}
		pool := func(s *set) [][]float32 {
			y, dx, inPlace := make([]float32, len(dy)), make([]float32, len(x)), clone(x)
			s.maxPool(count, channels, below, x, y)
			s.maxPoolBackward(count, channels, below, x, dy, dx)
			s.maxPoolBackward(count, channels, below, inPlace, dy, inPlace)
			return [][]float32{y, dx, inPlace}
		}
		setsAgree(t, fmt.Sprintf("%d squares of %d channels", count, channels), pool)
	}
}

func TestSetsAgreeOnSumsOfRowsAndOnSlopes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(52, 0))
	for n := 1; n <= 140; n++ {
		x, y, slope := randomVector(rng, n*(1+n%4)), anyBits(rng, n), float32(rng.NormFloat64())
		y[0] = 0
		results := func(s *set) [][]float32 {
			sum, rectified, own := make([]float32, n), clone(x[:n]), clone(y)
			s.sumRows(len(x)/n, sum, x)
			s.rectify(slope, rectified, y)
			s.rectify(slope, own, own)
			return [][]float32{sum, rectified, own}
		}
		setsAgree(t, fmt.Sprintf("%d columns", n), results)
	}
}

func TestSetsAgreeOnNormalizations(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(53, 0))
	for n := 1; n <= 70; n++ {
		rows := 1 + n%4
		x, v, inverse, mean, product := randomVector(rng, rows*n), randomVector(rng, rows*n), normal(rng, n), normal(rng, n), normal(rng, n)
		results := func(s *set) [][]float32 {
			normalized, dv, own := clone(x), make([]float32, len(v)), clone(v)
			s.normalizeColumns(rows, normalized, mean, inverse)
			s.normalizeColumnsBackward(rows, dv, v, x, inverse, mean, product)
			s.normalizeColumnsBackward(rows, own, own, x, inverse, mean, product)
			return [][]float32{normalized, dv, own}
		}
		setsAgree(t, fmt.Sprintf("%d columns", n), results)
	}
}

func TestSetsAgreeOnMomentsOfColumns(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(54, 0))
	for row := 1; row <= 70; row++ {
		rows, columns := 1+row%5, row/ColumnUnit*ColumnUnit
		x, y := randomVector(rng, rows*row), randomVector(rng, rows*row)
		want, wantProduct := make([]float64, row), make([]float64, row)
		columnMoments(rows, row, row, x, y, want, wantProduct)
		got, product := make([]float64, row), make([]float64, row)
		ColumnMoments(x, y, got, product)
		mustEqual64(t, fmt.Sprintf("moments of %d columns", row), slices.Concat(got, product), slices.Concat(want, wantProduct))
		for _, s := range allSets() {
			if columns > 0 {
				s.columnMoments(rows, columns, row, x, y, got, product)
				mustEqual64(t, fmt.Sprintf("%s: moments of %d columns", s.name, row), slices.Concat(got, product), slices.Concat(want, wantProduct))
			}
		}
	}
}

func TestPoolingOfExamples(t *testing.T) {
	t.Parallel()
	negativeZero := float32(math.Copysign(0, -1))
	x := []float32{1, 1, negativeZero, -1, 1, 0, -1, 0} // two squares of one channel
	y := make([]float32, 2)
	MaxPool(2, 1, 4, x, y)
	mustEqual(t, "largest", y, []float32{1, 0})
	MaxPoolBackward(2, 1, 4, x, []float32{5, 6}, x)
	mustEqual(t, "gradient", x, []float32{5, 0, 0, 0, 0, 0, 0, 6})
	sum := make([]float32, 2)
	SumRows(sum, []float32{1, 2, 3, 4, 5, 6})
	mustEqual(t, "sum", sum, []float32{9, 12})
	SumRows(sum, nil)
	mustEqual(t, "sum of no rows", sum, []float32{0, 0})
	slopes := []float32{2, 2, 2, 2}
	Rectify(0.5, slopes, []float32{1, -1, 0, negativeZero})
	mustEqual(t, "slopes", slopes, []float32{2, 1, 1, 1})
}
