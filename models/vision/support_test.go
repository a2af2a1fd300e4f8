package vision

import (
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/seeds"
	"coalmine/models"
)

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func testRand(i uint64) *rand.Rand { return seeds.Stream(i, "test") }

// drawExamples draws labelled images of noise.
func drawExamples(rng *rand.Rand, shape models.ImageShape, n int) [][]int32 {
	examples := make([][]int32, n)
	for i := range examples {
		e := []int32{1, firstWord + int32(rng.IntN(shape.Classes))}
		for range shape.Values() {
			e = append(e, firstWord+int32(rng.IntN(levels)))
		}
		examples[i] = e
	}
	return examples
}

// drawParams are initial parameters of which none is zero.
func drawParams(rng *rand.Rand, n models.Network) []float32 {
	params := n.Init(rng)
	for i := range params {
		params[i] += float32(0.05 * rng.NormFloat64())
	}
	return params
}

func widened(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// compareGradient compares every tensor of a gradient with central differences of a loss
// at some of its elements, which are in float64. The gradient is in float32.
func compareGradient(t *testing.T, list []models.Tensor, gradient []float32, params []float64, loss func() float64) {
	t.Helper()
	rng := testRand(99)
	for _, tensor := range list {
		if moving(tensor.Name) {
			for i, v := range tensor.View(gradient) {
				if v != 0 {
					t.Errorf("%v element %d: gradient %v of a statistic, want 0", tensor, i, v)
				}
			}
			continue
		}
		scale := rootMeanSquare(tensor.View(gradient))
		for range min(12, tensor.Size()) {
			i := tensor.Offset + rng.IntN(tensor.Size())
			want := centralDifference(params, i, loss)
			if got := float64(gradient[i]); math.Abs(got-want) > 2e-4*(math.Abs(want)+scale)+1e-7 {
				t.Errorf("%v element %d: gradient %v, central difference %v", tensor, i-tensor.Offset, got, want)
			}
		}
	}
}

func centralDifference(params []float64, i int, loss func() float64) float64 {
	const h = 1e-6
	old := params[i]
	defer func() { params[i] = old }()
	params[i] = old + h
	above := loss()
	params[i] = old - h
	return (above - loss()) / (2 * h)
}

func rootMeanSquare(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum / float64(len(x)))
}

// near compares numbers that were computed in float32 with others.
func near(t *testing.T, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Abs(float64(got[i])-want[i]) > tolerance*max(1, math.Abs(want[i])) {
			t.Fatalf("%s %d: %v, want %v", what, i, got[i], want[i])
		}
	}
}
