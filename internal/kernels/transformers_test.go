package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Rows in eights, the rest, and columns that are no multiple of eight go different ways.
func TestSetsAgreeOnNormalizedRows(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(61, 0))
	for _, columns := range []int{1, 7, 8, 24, 40, 41} {
		for _, rows := range []int{0, 1, 7, 8, 17} {
			for _, random := range []func(*rand.Rand, int) []float32{randomVector, anyBits} {
				x, scale, shift := random(rng, rows*columns), random(rng, columns), random(rng, columns)
				want := make([]float32, len(x))
				for i := range rows {
					portable.normalizeRows(want[i*columns:][:columns], x[i*columns:][:columns], scale, shift, 1e-5)
				}
				for _, s := range allSets() {
					got, inPlace := make([]float32, len(x)), clone(x)
					s.normalizeRows(got, x, scale, shift, 1e-5)
					s.normalizeRows(inPlace, inPlace, scale, shift, 1e-5)
					what := fmt.Sprintf("%s: %d x %d", s.name, rows, columns)
					mustEqual(t, what, got, want)
					mustEqual(t, what+" in place", inPlace, want)
				}
			}
		}
	}
}

func TestNormalizeRowsSumsInColumnOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(62, 0))
	const rows, columns, epsilon = 9, 16, 1e-3
	x, scale, shift := randomVector(rng, rows*columns), randomVector(rng, columns), randomVector(rng, columns)
	got := make([]float32, len(x))
	NormalizeRows(got, x, scale, shift, epsilon)
	for i := range rows {
		var sum, squares float64
		own := x[i*columns:][:columns]
		for _, v := range own {
			sum += float64(v)
		}
		for _, v := range own {
			d := float64(v) - sum/columns
			squares += float64(d * d)
		}
		factor := 1 / math.Sqrt(squares/columns+epsilon)
		for j, v := range own {
			want := float32(float64(float64((float64(v)-sum/columns)*factor)*float64(scale[j])) + float64(shift[j]))
			if !identical(got[i*columns+j], want) {
				t.Fatalf("row %d, column %d is %v, want %v", i, j, got[i*columns+j], want)
			}
		}
	}
}

// The definition of a row's softmax is SoftmaxTile and Scale; short rows are computed together.
func TestSoftmaxOfRowsMatchesEachRow(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(63, 0))
	for columns := 1; columns <= lanes+3; columns++ {
		for _, random := range []func(*rand.Rand, int) []float32{randomVector, anyBits} {
			x := random(rng, 5*columns)
			for j := range columns {
				x[j] = float32(math.Inf(-1)) // a row without a largest element
			}
			want := clone(x)
			for i := range 5 {
				own := want[i*columns:][:columns]
				_, sum := portable.softmaxTile(own)
				portable.scale(float32(1/sum), own)
			}
			for _, s := range allSets() {
				got := clone(x)
				s.softmaxRows(columns, got)
				mustEqual(t, fmt.Sprintf("%s: rows of %d", s.name, columns), got, want)
			}
		}
	}
}

func TestSetsAgreeOnGELU(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(64, 0))
	for n := range 70 {
		x := anyBits(rng, n)
		setsAgree(t, fmt.Sprintf("GELU of %d", n), func(s *set) [][]float32 {
			got, inPlace := make([]float32, n), clone(x)
			s.gelu(got, x)
			s.gelu(inPlace, inPlace)
			return [][]float32{got, inPlace}
		})
	}
}

// The approximation by tanh is off by less than 5e-4 from x times the normal distribution function.
func TestGELUIsNearItsFunction(t *testing.T) {
	t.Parallel()
	for x := float32(-9); x < 9; x += 1.0 / 64 {
		v := []float32{x}
		GELU(v, v)
		y := float64(x)
		approximation := 0.5 * y * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(y+0.044715*y*y*y)))
		if math.Abs(float64(v[0])-approximation) > 1e-6*max(1, math.Abs(y)) {
			t.Errorf("GELU of %v is %v, by tanh %v", x, v[0], approximation)
		}
		if exact := 0.5 * y * math.Erfc(-y/math.Sqrt2); math.Abs(float64(v[0])-exact) > 5e-4 {
			t.Errorf("GELU of %v is %v, exactly %v", x, v[0], exact)
		}
	}
}
