package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

type recurrentCell struct {
	name     string
	gates    int
	forward  func(s *set, gates, previous, cell, tanhCell, output []float32)
	backward func(*set) func(gates, previous, tanhCell, dOutput, dCell, dGates []float32)
	// next computes the cell and the output of one unit from its pre-activations.
	next func(gates []float64, previous float64) (cell, output float64)
}

var cells = []recurrentCell{
	{
		"cifg", 3,
		(*set).cifgForward,
		func(s *set) func(gates, previous, tanhCell, dOutput, dCell, dGates []float32) { return s.cifgBackward },
		func(g []float64, previous float64) (float64, float64) {
			i := sigmoidFloat64(g[0])
			cell := (1-i)*previous + i*math.Tanh(g[1])
			return cell, sigmoidFloat64(g[2]) * math.Tanh(cell)
		},
	},
	{
		"lstm", 4,
		(*set).lstmForward,
		func(s *set) func(gates, previous, tanhCell, dOutput, dCell, dGates []float32) { return s.lstmBackward },
		func(g []float64, previous float64) (float64, float64) {
			cell := sigmoidFloat64(g[1])*previous + sigmoidFloat64(g[0])*math.Tanh(g[2])
			return cell, sigmoidFloat64(g[3]) * math.Tanh(cell)
		},
	},
}

// unit gathers the pre-activations of unit j.
func unit(gates []float32, count, units, j int) []float64 {
	g := make([]float64, count)
	for i := range g {
		g[i] = float64(gates[i*units+j])
	}
	return g
}

func normal(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*(1+math.Abs(want))
}

func TestCellsComputeTheirDefinition(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	const units = 37
	for _, c := range cells {
		gates, previous := normal(rng, c.gates*units), normal(rng, units)
		activated, cell, tanhCell, output := clone(gates), make([]float32, units), make([]float32, units), make([]float32, units)
		c.forward(available()[0], activated, previous, cell, tanhCell, output)
		for j := range units {
			wantCell, wantOutput := c.next(unit(gates, c.gates, units, j), float64(previous[j]))
			if !near(float64(cell[j]), wantCell, 1e-6) || !near(float64(output[j]), wantOutput, 1e-6) || !near(float64(tanhCell[j]), math.Tanh(wantCell), 1e-6) {
				t.Fatalf("%s unit %d: cell %v, output %v, want %v, %v", c.name, j, cell[j], output[j], wantCell, wantOutput)
			}
		}
	}
}

// The loss is dOutput*output + dCell*cell, its gradient by central differences.
func TestCellGradientsMatchDifferences(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 1))
	const units, step = 21, 1e-5
	for _, c := range cells {
		gates, previous, dOutput, dCell := normal(rng, c.gates*units), normal(rng, units), normal(rng, units), normal(rng, units)
		activated, cell, tanhCell, output := clone(gates), make([]float32, units), make([]float32, units), make([]float32, units)
		c.forward(available()[0], activated, previous, cell, tanhCell, output)
		dPrevious, dGates := clone(dCell), make([]float32, c.gates*units)
		c.backward(available()[0])(activated, previous, tanhCell, dOutput, dPrevious, dGates)
		for j := range units {
			loss := func(g []float64, previous float64) float64 {
				cell, output := c.next(g, previous)
				return float64(dOutput[j])*output + float64(dCell[j])*cell
			}
			g, p := unit(gates, c.gates, units, j), float64(previous[j])
			if want := (loss(g, p+step) - loss(g, p-step)) / (2 * step); !near(float64(dPrevious[j]), want, 1e-5) {
				t.Fatalf("%s unit %d: gradient of the previous cell %v, want %v", c.name, j, dPrevious[j], want)
			}
			for i := range g {
				center := g[i]
				g[i] = center + step
				upper := loss(g, p)
				g[i] = center - step
				want := (upper - loss(g, p)) / (2 * step)
				g[i] = center
				if got := float64(dGates[i*units+j]); !near(got, want, 1e-5) {
					t.Fatalf("%s unit %d gate %d: gradient %v, want %v", c.name, j, i, got, want)
				}
			}
		}
	}
}

func TestBackwardMayOverwriteTheGates(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 1))
	const units = 19
	gates, previous, tanhCell, dOutput, dCell := normal(rng, 3*units), normal(rng, units), normal(rng, units), normal(rng, units), normal(rng, units)
	apart, dCell2 := make([]float32, 3*units), clone(dCell)
	CIFGBackward(gates, previous, tanhCell, dOutput, dCell2, apart)
	CIFGBackward(gates, previous, tanhCell, dOutput, dCell, gates)
	mustEqual(t, "in place", gates, apart)
	mustEqual(t, "cell gradient", dCell, dCell2)
}

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
		setsAgree(t, fmt.Sprintf("GRU of %d units", n), step)
	}
}
