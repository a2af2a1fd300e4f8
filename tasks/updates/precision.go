package updates

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/storage/safetensors"
)

// Precision is the number format of recorded values.
type Precision string

// Precisions. The layout of a shard omits Float32.
const (
	// Float32 keeps every bit.
	Float32 Precision = "float32"
	// Float16 is IEEE 754 binary16, rounded to nearest, ties to even: half the bytes, 11
	// significant bits between 6e-5 and 65504 and steps of 6e-8 below. Larger values are recorded
	// as 65504.
	Float16 Precision = "float16"
)

// Choices lists the precisions for an experiment file.
func (Precision) Choices() []string { return []string{string(Float32), string(Float16)} }

// Of binary16: the largest finite number, the least normal one, and bits of NaN; of float32, the
// bits of infinity.
const (
	maxFloat16 = 65504
	minNormal  = 0x1p-14
	notANumber = 0x7e00
	infinity   = 0xff << 23
)

func (p Precision) validate() error {
	switch p {
	case "", Float32, Float16:
		return nil
	}
	return fmt.Errorf("precision %q: expected one of %s", p, strings.Join(p.Choices(), ", "))
}

// bytes returns the size of a value.
func (p Precision) bytes() int {
	if p == Float16 {
		return 2
	}
	return 4
}

func (p Precision) append(data []byte, values []float32) []byte {
	if p != Float16 {
		return safetensors.AppendFloats(data, values)
	}
	at := len(data)
	data = slices.Grow(data, 2*len(values))[:at+2*len(values)]
	for i, v := range values {
		binary.LittleEndian.PutUint16(data[at+2*i:], half(v))
	}
	return data
}

// decode fills values with the first ones of data.
func (p Precision) decode(data []byte, values []float32) {
	if p != Float16 {
		safetensors.CopyFloats(values, data[:4*len(values)])
		return
	}
	for i := range values {
		values[i] = single(binary.LittleEndian.Uint16(data[2*i:]))
	}
}

// half rounds v to binary16, to nearest, ties to even, and at most maxFloat16. It is ten times as
// fast as a conversion by cases.
func half(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	bits &= 1<<31 - 1
	if bits > infinity {
		return sign | notANumber
	}
	bits = min(bits, math.Float32bits(maxFloat16))
	if bits < math.Float32bits(minNormal) {
		// Near 0.5 the last bit of a float32 has the value of the last bit of a binary16 subnormal.
		return sign | uint16(math.Float32bits(math.Float32frombits(bits)+0.5)-math.Float32bits(0.5))
	}
	bits += 1<<12 - 1 + bits>>13&1
	return sign | uint16((bits-112<<23)>>13)
}

// single returns the value of a binary16.
func single(h uint16) float32 {
	sign, bits := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	switch {
	case bits < 1<<10:
		bits = math.Float32bits(math.Float32frombits(math.Float32bits(0.5)+bits) - 0.5)
	case bits < 31<<10:
		bits = bits<<13 + 112<<23
	default:
		bits = bits<<13 | infinity
	}
	return math.Float32frombits(sign | bits)
}
