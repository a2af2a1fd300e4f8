package safetensors_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage/safetensors"
)

// parts opens a file with one tensor w of n elements of a type.
func parts(t *testing.T, dtype string, n int, data []byte) *safetensors.Parts {
	t.Helper()
	all := file(fmt.Sprintf(`{"w":{"dtype":"%s","shape":[%d],"data_offsets":[0,%d]}}`, dtype, n, len(data)), data...)
	return must.Get(safetensors.OpenParts(int64(len(all)), func(offset, length int64) ([]byte, error) { return all[offset : offset+length], nil }))(t)
}

// All 65,536 numbers of 16 bits, which fill more than one part of a file, convert by their definitions.
func TestNumbersOf16BitsAreReadExactly(t *testing.T) {
	t.Parallel()
	const repeats = 65
	var data []byte
	for i := range 1 << 16 * repeats {
		data = binary.LittleEndian.AppendUint16(data, uint16(i))
	}
	for dtype, value := range map[string]func(sign float64, bits int) float64{
		"BF16": func(sign float64, bits int) float64 {
			return ieee(sign, bits>>7&255, 255, -127, float64(bits&127)/128)
		},
		"F16": func(sign float64, bits int) float64 {
			return ieee(sign, bits>>10&31, 31, -15, float64(bits&1023)/1024)
		},
	} {
		got := make([]float32, len(data)/2)
		must.Do(t, parts(t, dtype, len(got), data).Convert("w", got))
		for i, v := range got {
			bits := i % (1 << 16)
			want := value([2]float64{1, -1}[bits>>15], bits)
			if math.IsNaN(want) != math.IsNaN(float64(v)) || !math.IsNaN(want) && (float64(v) != want || math.Signbit(float64(v)) != math.Signbit(want)) {
				t.Fatalf("%s %#04x is %v, want %v", dtype, bits, v, want)
			}
		}
	}
}

// ieee returns the number of an exponent field, whose largest value means infinity or NaN.
func ieee(sign float64, exponent, most, bias int, fraction float64) float64 {
	switch {
	case exponent == most && fraction == 0:
		return math.Inf(int(sign))
	case exponent == most:
		return math.NaN()
	case exponent == 0:
		return sign * math.Ldexp(fraction, bias+1)
	}
	return sign * math.Ldexp(1+fraction, exponent+bias)
}

func TestConvertRejectsBadTensors(t *testing.T) {
	t.Parallel()
	p := parts(t, "BOOL", 2, []byte{1, 0})
	for _, c := range []struct {
		name string
		n    int
		want string
	}{{"w", 2, "elements of BOOL; expected F32, F16 or BF16"}, {"v", 2, `no tensor "v"`}} {
		must.Say(t, p.Convert(c.name, make([]float32, c.n)), c.want)
	}
	must.Say(t, parts(t, "F16", 1, []byte{0, 0}).Convert("w", make([]float32, 3)), "1 elements; expected 3")
}
