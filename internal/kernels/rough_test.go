package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestSetsAgreeOnRoughCells(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(31, 0))
	for n := range 40 {
		for _, random := range []func(*rand.Rand, int) []float32{randomVector, anyBits} {
			input, recurrent, previous := random(rng, 3*n), random(rng, 3*n), random(rng, n)
			x, y := random(rng, n), random(rng, n)
			want := portable.cifgRoughDot(input, recurrent, previous, x, y, input, x)
			for _, s := range allSets() {
				if got := s.cifgRoughDot(input, recurrent, previous, x, y, recurrent, y); !identical(got, want) {
					t.Fatalf("%s: rough cell of %d units: %x, want %x", s.name, n, got, want)
				}
			}
		}
	}
}

// Each unit is looked at alone, by a difference of 1, with pre-activations from none
// to those at which the gates are shut.
func TestRoughCellsAreNearTheCell(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(32, 0))
	input, recurrent := make([]float32, 3), make([]float32, 3)
	previous, cell, output := make([]float32, 1), make([]float32, 1), make([]float32, 1)
	worst := 0.0
	for i := range 200_000 {
		scale := math.Ldexp(1, i%12-4)
		for g := range input {
			input[g], recurrent[g] = float32(scale*rng.NormFloat64()), float32(scale*rng.NormFloat64())
		}
		previous[0] = float32(2*rng.Float64() - 1)
		if i%5 == 0 {
			previous[0] = float32(math.Copysign(1, float64(previous[0])))
		}
		rough := CIFGRoughDot(input, recurrent, previous, []float32{1.5}, []float32{0.5}, input, previous)
		CIFGCell(input, recurrent, previous, cell, output, input, previous)
		if off := math.Abs(float64(rough) - float64(output[0])); off <= CIFGRoughError {
			worst = max(worst, off)
		} else {
			t.Fatalf("pre-activations %v + %v after %v: %v, the cell gives %v; want an error of at most %v", input, recurrent, previous, rough, output, CIFGRoughError)
		}
	}
	if worst < CIFGRoughError/2 {
		t.Errorf("the largest error is %v: the bound of %v is far too wide", worst, CIFGRoughError)
	}
}

func TestRoughCellsKeepNaN(t *testing.T) {
	t.Parallel()
	const n = 21
	for at := range 8 * n {
		vectors := make([]float32, 8*n)
		vectors[at] = float32(math.NaN())
		got := CIFGRoughDot(vectors[:3*n], vectors[3*n:6*n], vectors[6*n:7*n], vectors[7*n:], make([]float32, n), vectors[:3*n], vectors[:n])
		if got == got {
			t.Fatalf("NaN in element %d gives %v", at, got)
		}
	}
}

func BenchmarkCells(b *testing.B) {
	const n = 670
	rng := rand.New(rand.NewPCG(33, 0))
	input, recurrent, previous, x, y := normal(rng, 3*n), normal(rng, 3*n), normal(rng, n), normal(rng, n), normal(rng, n)
	cell, output := make([]float32, n), make([]float32, n)
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"exact", func() { CIFGCell(input, recurrent, previous, cell, output, input, previous) }},
		{"rough", func() { CIFGRoughDot(input, recurrent, previous, x, y, input, previous) }},
		{"dot", func() { Dot(x, y) }},
	} {
		b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
			for b.Loop() {
				c.run()
			}
		})
	}
}
