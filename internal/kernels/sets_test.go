package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/must"
)

// Invariant 2: every set gives the same bytes.

func TestSetsAgreeOnGemm(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 0))
	for range 40 {
		g := randomGemm(rng, 40)
		want := g.on(portable)
		for _, s := range allSets() {
			mustEqual(t, s.name+": "+g.String(), g.on(s), want)
			mustEqual(t, s.name+" packed: "+g.String(), g.packedOn(s), want)
		}
	}
}

func TestEmptyMatrices(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(10, 0))
	for i := range 16 {
		size := func(bit int) int { return 3 * (i >> bit & 1) }
		g := newGemm(rng, i>>3 == 1, i>>3 == 1, size(0), size(1), size(2), 1, 0)
		want := g.on(portable)
		for _, s := range allSets() {
			mustEqual(t, s.name+": "+g.String(), g.on(s), want)
			mustEqual(t, s.name+" packed: "+g.String(), g.packedOn(s), want)
		}
	}
}

// Every number of rows and columns meets another edge of the tiles.
func TestSetsAgreeOnEveryTile(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 0))
	for size := 1; size <= 2*panelWidth+1; size++ {
		g := newGemm(rng, size%2 == 0, size%3 == 0, 1+size%17, size, 5, 1, float32(size%2))
		want := g.on(portable)
		for _, s := range allSets() {
			mustEqual(t, s.name+": "+g.String(), g.on(s), want)
		}
	}
}

// Larger products cross the blocks, in one direction at a time; they are too
// slow to emulate.
func TestSetsAgreeAcrossBlocks(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 0))
	for _, shape := range [][3]int{{2*blockRows + 7, 20, 9}, {9, blockColumns + 50, 20}, {packingPays + 3, 70, 2*blockDepth + 3}} {
		for _, trans := range []bool{false, true} {
			g := newGemm(rng, trans, trans, shape[0], shape[1], shape[2], 0.5, 1)
			want := g.on(portable)
			for _, s := range available() {
				mustEqual(t, s.name+": "+g.String(), g.on(s), want)
				mustEqual(t, s.name+" packed: "+g.String(), g.packedOn(s), want)
			}
		}
	}
}

func TestSetsAgreeOnFunctions(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 0))
	for n := range 70 {
		x := anyBits(rng, n)
		for _, f := range functions {
			want := make([]float32, n)
			f.of(portable)(want, x)
			for _, s := range allSets() {
				got, inPlace := make([]float32, n), clone(x)
				f.of(s)(got, x)
				f.of(s)(inPlace, inPlace)
				what := fmt.Sprintf("%s: %s of %d", s.name, f.name, n)
				mustEqual(t, what, got, want)
				mustEqual(t, what+" in place", inPlace, want)
			}
		}
	}
}

// Real sets meet many more arguments than the emulator can.
func TestSetsAgreeOnFunctionsOfManyArguments(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 0))
	x := anyBits(rng, 100_000)
	for _, f := range functions {
		want, got := make([]float32, len(x)), make([]float32, len(x))
		f.of(portable)(want, x)
		for _, s := range available() {
			f.of(s)(got, x)
			mustEqual(t, s.name+": "+f.name, got, want)
		}
	}
}

func TestSetsAgreeOnReductions(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 0))
	for n := range 70 {
		for _, x := range [][]float32{randomVector(rng, n), anyBits(rng, n)} {
			y := randomVector(rng, n)
			for _, s := range allSets() {
				compareReductions(t, s, x, y)
			}
		}
	}
}

func compareReductions(t *testing.T, s *set, x, y []float32) {
	t.Helper()
	largest := portable.max(x)
	if got := s.max(x); !identical(got, largest) {
		t.Fatalf("%s: max of %v is %v, want %v", s.name, x, got, largest)
	}
	want, got := make([]float32, len(x)), make([]float32, len(x))
	wantSum, gotSum := portable.expSum(want, x, largest), s.expSum(got, x, largest)
	mustEqual(t, s.name+": expSum", got, want)
	if sum := s.sumExp(x, largest); !identical64(gotSum, wantSum) || !identical64(sum, wantSum) {
		t.Fatalf("%s: expSum, sumExp of %d elements are %x, %x, want %x", s.name, len(x), gotSum, sum, wantSum)
	}
	var moments, wantMoments [2]float64
	portable.moments(want, x, largest, wantMoments[:])
	if s.moments(want, x, largest, moments[:]); !identical64(moments[0], wantMoments[0]) || !identical64(moments[1], wantMoments[1]) {
		t.Fatalf("%s: moments of %d elements are %x, want %x", s.name, len(x), moments, wantMoments)
	}
	if got, want := s.dot(x, y), portable.dot(x, y); !identical64(got, want) {
		t.Fatalf("%s: dot of %d elements is %x, want %x", s.name, len(x), got, want)
	}
}

func TestSetsAgreeOnUpdates(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 0))
	for n := range 70 {
		x, y, alpha := anyBits(rng, n), anyBits(rng, n), float32(rng.NormFloat64())
		updates := func(s *set) (results [][]float32) {
			scaled, sum, combined := clone(x), clone(x), clone(y)
			s.scale(alpha, scaled)
			s.add(sum, y)
			s.axpy(alpha, x, combined)
			return [][]float32{scaled, sum, combined}
		}
		setsAgree(t, fmt.Sprintf("updates of %d", n), updates)
	}
}

func TestSetsAgreeOnGates(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 0))
	for n := range 40 {
		for _, cell := range cells {
			gates, previous := randomVector(rng, cell.gates*n), randomVector(rng, n)
			dOutput, dCell := randomVector(rng, n), randomVector(rng, n)
			step := func(s *set) (results [][]float32) {
				g, c, tc, out, dc, dg := clone(gates), make([]float32, n), make([]float32, n), make([]float32, n), clone(dCell), make([]float32, cell.gates*n)
				cell.forward(s, g, previous, c, tc, out)
				cell.backward(s)(g, previous, tc, dOutput, dc, dg)
				return [][]float32{g, c, tc, out, dc, dg}
			}
			setsAgree(t, fmt.Sprintf("%s of %d units", cell.name, n), step)
		}
	}
}

func TestSetsAgreeOnTheCellInOnePass(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(10, 0))
	for n := range 40 {
		for _, random := range []func(*rand.Rand, int) []float32{randomVector, anyBits} {
			input, recurrent, previous := random(rng, 3*n), random(rng, 3*n), random(rng, n)
			gates, wantCell, wantOutput := clone(input), make([]float32, n), make([]float32, n)
			portable.add(gates, recurrent)
			portable.cifgForward(gates, previous, wantCell, make([]float32, n), wantOutput)
			for _, s := range allSets() {
				cell, output := clone(previous), make([]float32, n)
				s.cifgCell(input, recurrent, cell, cell, output, input, output) // cell may be previous
				mustEqual(t, fmt.Sprintf("%s: cell of %d units", s.name, n), cell, wantCell)
				mustEqual(t, fmt.Sprintf("%s: output of %d units", s.name, n), output, wantOutput)
			}
		}
	}
}

func TestSetsTransposeExactly(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 0))
	for range 20 {
		rows, columns := rng.IntN(30), rng.IntN(30)
		src := randomVector(rng, rows*(columns+2))
		for _, s := range allSets() {
			dst := make([]float32, columns*(rows+3))
			s.transpose(dst, rows+3, src, columns+2, rows, columns)
			for i := range rows {
				for j := range columns {
					if got, want := dst[j*(rows+3)+i], src[i*(columns+2)+j]; got != want {
						t.Fatalf("%s: element %d,%d of %d x %d is %v, want %v", s.name, i, j, rows, columns, got, want)
					}
				}
			}
		}
	}
}

// Panels are as wide as the tiles of the set that packs them; a set of wider
// tiles would read beyond them.
func TestPackedMatricesBelongToTheirSet(t *testing.T) {
	t.Parallel()
	narrow := *portable
	narrow.tileColumns = 16
	var packed Packed
	narrow.packB(false, 1, 2, []float32{1, 2}, 2, &packed)
	mustPanic(t, "packed by a set of narrower tiles", func() {
		portable.gemmPacked(false, 1, 1, []float32{1}, 1, &packed, 0, make([]float32, 2), 2)
	})
}

func TestForceSetChangesAndRestores(t *testing.T) { // not parallel: it changes the set of the whole process
	before := Set()
	restore := must.Get(ForceSet("go"))(t)
	if Set() != "go" {
		t.Errorf("forced go, got %s", Set())
	}
	restore()
	if Set() != before {
		t.Errorf("restored %s, want %s", Set(), before)
	}
	if _, err := ForceSet("sse"); err == nil {
		t.Error("ForceSet accepted an unknown set")
	}
}

// FuzzGemm compares all sets and the packed form on shapes and values of the
// fuzzer's choice.
func FuzzGemm(f *testing.F) {
	f.Add(uint64(1), uint8(6), uint8(16), uint8(4), false, true, float32(1), float32(0))
	f.Add(uint64(2), uint8(9), uint8(49), uint8(0), true, false, float32(-2), float32(3))
	f.Fuzz(func(t *testing.T, seed uint64, m, n, k uint8, transA, transB bool, alpha, beta float32) {
		g := newGemm(rand.New(rand.NewPCG(seed, 0)), transA, transB, int(m%20), int(n%60), int(k%20), alpha, beta) // beyond a tile of 8x48
		want := g.on(portable)
		for _, s := range allSets() {
			mustEqual(t, s.name+": "+g.String(), g.on(s), want)
			mustEqual(t, s.name+" packed: "+g.String(), g.packedOn(s), want)
		}
	})
}

// FuzzFunctions compares all sets on any two bit patterns.
func FuzzFunctions(f *testing.F) {
	f.Add(uint32(0x7f800000), uint32(0x00000001))
	f.Add(uint32(0xc2aeac50), uint32(0x42b17218))
	f.Fuzz(func(t *testing.T, a, b uint32) {
		x := []float32{math.Float32frombits(a), math.Float32frombits(b)}
		for _, function := range functions {
			want, got := make([]float32, 2), make([]float32, 2)
			function.of(portable)(want, x)
			for _, s := range allSets() {
				function.of(s)(got, x)
				mustEqual(t, s.name+": "+function.name, got, want)
			}
		}
	})
}
