package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// gruUnit is one unit of a GRU in float64.
func gruUnit(g []float64, candidate, previous float64) float64 {
	z := math.Tanh(g[2] + sigmoidFloat64(g[0])*candidate)
	return z + sigmoidFloat64(g[1])*(previous-z)
}

func TestGRUComputesItsDefinitionAndItsGradient(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 1))
	const units, step = 23, 1e-5
	gates, candidate, previous := normal(rng, 3*units), normal(rng, units), normal(rng, units)
	dOutput, dCell := normal(rng, units), normal(rng, units)
	activated, cell := clone(gates), make([]float32, units)
	GRUForward(activated, candidate, previous, cell)
	dPrevious, dGates, dCandidate := clone(dCell), make([]float32, 3*units), make([]float32, units)
	GRUBackward(activated, candidate, previous, dOutput, dPrevious, dGates, dCandidate)
	for j := range units {
		x := append(unit(gates, 3, units, j), float64(candidate[j]), float64(previous[j]))
		value := func() float64 { return gruUnit(x[:3], x[3], x[4]) }
		if want := value(); !near(float64(cell[j]), want, 1e-6) {
			t.Fatalf("unit %d: cell %v, want %v", j, cell[j], want)
		}
		got := []float32{dGates[j], dGates[units+j], dGates[2*units+j], dCandidate[j], dPrevious[j]}
		for i := range x {
			center := x[i]
			x[i] = center + step
			upper := value()
			x[i] = center - step
			want := float64(dOutput[j]+dCell[j]) * (upper - value()) / (2 * step)
			x[i] = center
			if !near(float64(got[i]), want, 1e-5) {
				t.Fatalf("unit %d, argument %d: gradient %v, want %v", j, i, got[i], want)
			}
		}
	}
}

func TestSetsAgreeOnTheGRU(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 0))
	for n := range 40 {
		gates, candidate, previous := randomVector(rng, 3*n), randomVector(rng, n), randomVector(rng, n)
		dOutput, dCell := randomVector(rng, n), randomVector(rng, n)
		step := func(s *set) (results [][]float32) {
			g, c, dc, dg, dx := clone(gates), make([]float32, n), clone(dCell), make([]float32, 3*n), make([]float32, n)
			s.gruForward(g, candidate, previous, c)
			s.gruBackward(g, candidate, previous, dOutput, dc, dg, dx)
			return [][]float32{g, c, dc, dg, dx}
		}
		want := step(portable)
		for _, s := range allSets() {
			for i, got := range step(s) {
				mustEqual(t, fmt.Sprintf("%s: GRU of %d units, result %d", s.name, n, i), got, want[i])
			}
		}
	}
}

func TestGRUChecksShapes(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic for gates of two thirds of their length")
		}
	}()
	x := make([]float32, 4)
	GRUForward(make([]float32, 8), x, x, x)
}
