package updates

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/x448/float16"
)

// Precision is what recorded values are stored in.
type Precision string

// Precisions. The layout of a shard leaves Float32 out.
const (
	// Float32 keeps every bit.
	Float32 Precision = "float32"
	// Float16 is IEEE 754 binary16, to the nearest, ties to even: half the bytes, 11
	// significant bits between 6e-5 and 65504 and steps of 6e-8 below. What is above is
	// recorded as 65504.
	Float16 Precision = "float16"
)

// Choices lists the words that the experiment file may have.
func (Precision) Choices() []string { return []string{string(Float32), string(Float16)} }

// maxFloat16 is the largest finite number of binary16.
const maxFloat16 = 65504

func (p Precision) validate() error {
	switch p {
	case "", Float32, Float16:
		return nil
	}
	return fmt.Errorf("precision %q: expected one of %s", p, strings.Join(p.Choices(), ", "))
}

// bytes is the size of a value.
func (p Precision) bytes() int {
	if p == Float16 {
		return 2
	}
	return 4
}

// append encodes values behind data.
func (p Precision) append(data []byte, values []float32) []byte {
	if p == Float16 {
		for _, v := range values {
			v = max(-maxFloat16, min(v, maxFloat16))
			data = binary.LittleEndian.AppendUint16(data, float16.Fromfloat32(v).Bits())
		}
		return data
	}
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

// decode fills values with the first ones of data.
func (p Precision) decode(data []byte, values []float32) {
	if p == Float16 {
		for i := range values {
			values[i] = float16.Frombits(binary.LittleEndian.Uint16(data[2*i:])).Float32()
		}
		return
	}
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
}
