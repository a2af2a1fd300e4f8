package seeds

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The slices end within a key's words and at their end. A twelfth of a thousand numbers takes
// drawSlowly, and the last stream is long enough to reach the tail.
func TestNormalsMatchNormFloat64(t *testing.T) {
	t.Parallel()
	for stream, lengths := range [][]int{{1, 2, 3}, {124, 248, 1}, {0, 1000, 7, 5000}, slices.Repeat([]int{997}, 500)} {
		key := StreamKey(5, Noise, uint64(stream))
		want, normals := rand.New(rand.NewChaCha8(key)), NewNormals(key)
		largest := 0.0
		for _, length := range lengths {
			x := make([]float64, length)
			normals.Draw(x)
			for i, v := range x {
				if w := want.NormFloat64(); v != w {
					t.Fatalf("stream %d, number %d of %d: %v, want %v", stream, i, length, v, w)
				}
				largest = max(largest, math.Abs(v))
			}
		}
		if stream == 3 && largest < layerEdge {
			t.Errorf("the largest number is %v: none of the tail was drawn", largest)
		}
	}
}

// words is a source that returns the given numbers.
type words struct {
	next  []uint64
	drawn int
}

func (w *words) Uint64() uint64 {
	w.drawn++
	return w.next[min(w.drawn, len(w.next))-1]
}

// The centre of a layer is the range where NormFloat64 draws one number alone.
func TestLayersMatchNormFloat64(t *testing.T) {
	t.Parallel()
	for i, l := range layers {
		for _, offset := range []uint32{0, 1, l.centre / 2, l.centre - 1, l.centre, l.centre + 1} {
			word := uint64(i)<<32 | uint64(offset)
			source := &words{next: []uint64{word, 1 << 52, 1 << 20, 0}}
			value := rand.New(source).NormFloat64()
			x := []float64{0}
			inside := drawCentres(x, []uint64{word}) == 1
			if once := source.drawn == 1; inside != once || inside && x[0] != value {
				t.Errorf("layer %d, offset %d: drawn by one word %v, want %v; value %v, want %v", i, offset, inside, once, x[0], value)
			}
		}
	}
}

// All layers have the same area under the density.
func TestLayersMatchNormalDensity(t *testing.T) {
	t.Parallel()
	for i := 1; i < layerCount; i++ {
		edge := layers[i].step * (1 << 31)
		if want := math.Exp(-edge * edge / 2); math.Abs(float64(layers[i].height)-want) > 1e-6 {
			t.Errorf("layer %d: height %v, want %v", i, layers[i].height, want)
		}
		if area := edge * float64(layers[i-1].height-layers[i].height); math.Abs(area-layerArea) > 1e-6 {
			t.Errorf("layer %d: area %v, want %v", i, area, layerArea)
		}
	}
}

func BenchmarkNormals(b *testing.B) {
	x := make([]float64, 1<<16)
	key := StreamKey(1, Noise)
	b.Run("one by one", func(b *testing.B) {
		rng := rand.New(rand.NewChaCha8(key))
		for b.Loop() {
			for i := range x {
				x[i] = rng.NormFloat64()
			}
		}
	})
	b.Run("together", func(b *testing.B) {
		normals := NewNormals(key)
		for b.Loop() {
			normals.Draw(x)
		}
	})
}
