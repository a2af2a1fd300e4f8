package kernels

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSetsAgreeOnChaCha8(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(12, 0))
	for _, lanes := range []int{ChaCha8Lanes, 3 * ChaCha8Lanes} {
		state := words(rng, ChaCha8State*lanes)
		want := make([]uint32, ChaCha8Rows*lanes)
		portable.chaCha8(want, state)
		for _, s := range allSets() {
			got := words(rng, len(want)) // the bytes there before must not matter
			if s.chaCha8(got, state); !slices.Equal(got, want) {
				t.Errorf("%s: blocks in %d lanes differ", s.name, lanes)
			}
		}
	}
}

// The first numbers of a generator of math/rand/v2 are rows of the blocks 0 to 3, each of two numbers.
func TestChaCha8IsThatOfTheStandardLibrary(t *testing.T) {
	t.Parallel()
	var key [32]byte
	for i := range key {
		key[i] = byte(7 * i)
	}
	state, rows := make([]uint32, ChaCha8State*ChaCha8Lanes), make([]uint32, ChaCha8Rows*ChaCha8Lanes)
	for lane := range ChaCha8Lanes {
		for i := range 8 {
			state[i*ChaCha8Lanes+lane] = binary.LittleEndian.Uint32(key[4*i:])
		}
		state[8*ChaCha8Lanes+lane] = uint32(lane)
	}
	ChaCha8(rows, state)
	source := rand.NewChaCha8(key)
	for row := range ChaCha8Rows {
		for pair := range 2 {
			low, high := rows[row*ChaCha8Lanes+2*pair], rows[row*ChaCha8Lanes+2*pair+1]
			if got, want := uint64(high)<<32|uint64(low), source.Uint64(); got != want {
				t.Fatalf("row %d, number %d: %x, want %x", row, pair, got, want)
			}
		}
	}
}

func TestChaCha8RefusesOtherShapes(t *testing.T) {
	t.Parallel()
	for _, sizes := range [][2]int{{0, 0}, {ChaCha8Rows, ChaCha8State}, {ChaCha8Rows * ChaCha8Lanes, ChaCha8State}, {ChaCha8Rows*ChaCha8Lanes + 1, ChaCha8State * ChaCha8Lanes}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d words of a state of %d are computed", sizes[0], sizes[1])
				}
			}()
			ChaCha8(make([]uint32, sizes[0]), make([]uint32, sizes[1]))
		}()
	}
}

func words(rng *rand.Rand, n int) []uint32 {
	w := make([]uint32, n)
	for i := range w {
		w[i] = rng.Uint32()
	}
	return w
}
