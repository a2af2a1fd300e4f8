package updates

import (
	"math"
	"testing"

	"github.com/x448/float16"
)

// TestHalfPrecisionIsThatOfALibrary compares both directions with a conversion by cases: all values
// of binary16, their neighbours in float32, the midpoints of two, and float32 from end to end.
func TestHalfPrecisionIsThatOfALibrary(t *testing.T) {
	t.Parallel()
	for h := range 1 << 16 {
		v := single(uint16(h))
		want := float16.Frombits(uint16(h)).Float32()
		if v != want && (v == v || want == want) {
			t.Fatalf("%04x became %v, want %v", h, v, want)
		}
		bits := math.Float32bits(v)
		for _, by := range []uint32{0, 1, 1<<12 - 1, 1 << 12, 1<<12 + 1} {
			wantHalf(t, bits+by)
			wantHalf(t, bits-by)
		}
	}
	for i := range uint32(1 << 22) {
		wantHalf(t, 1021*i)
	}
	for h := range uint16(1 << 10) { // the middles of subnormals
		middle := math.Float32bits(single(h) + 0x1p-25)
		for by := range uint32(3) {
			wantHalf(t, middle+by-1)
		}
	}
}

func wantHalf(t *testing.T, bits uint32) {
	t.Helper()
	v := math.Float32frombits(bits)
	bounded := max(-maxFloat16, min(v, maxFloat16))
	want := float16.Fromfloat32(bounded).Bits()
	if got := half(v); got != want && v == v {
		t.Fatalf("%08x, %v, became %04x, want %04x", bits, v, got, want)
	}
	if v != v && half(v)&^0x8000 != notANumber {
		t.Fatalf("%08x became %04x, which is a number", bits, half(v))
	}
}

func BenchmarkPrecision(b *testing.B) {
	values := make([]float32, 1<<20)
	for i := range values {
		values[i] = float32(math.Ldexp(math.Sin(float64(i)), -10))
	}
	for _, p := range []Precision{Float32, Float16} {
		data := make([]byte, 0, p.bytes()*len(values))
		b.Run(string(p), func(b *testing.B) {
			b.SetBytes(int64(cap(data)))
			for b.Loop() {
				p.append(data, values)
			}
		})
	}
}
