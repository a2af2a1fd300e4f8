package safetensors

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/x448/float16"
)

// littleEndian reports whether numbers in memory have the byte order of the file.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// appendValues appends numbers in the byte order of the file.
func appendValues[T float32 | int64](out []byte, v []T) []byte {
	if len(v) == 0 {
		return out
	}
	if littleEndian {
		return append(out, unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))...)
	}
	out, _ = binary.Append(out, binary.LittleEndian, v) // fails only for types without a size
	return out
}

func appendRounded(out []byte, v []float64) []byte {
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(x)))
	}
	return out
}

// AppendFloats appends numbers as in the file: little-endian.
func AppendFloats(out []byte, v []float32) []byte { return appendValues(out, v) }

// values returns the numbers in data, a whole number of them, without copying
// if possible. It never returns nil.
func values[T float32 | int64](data []byte) []T {
	var zero T
	n := len(data) / int(unsafe.Sizeof(zero))
	if n == 0 {
		return []T{}
	}
	first := unsafe.Pointer(&data[0])
	if littleEndian && uintptr(first)%unsafe.Alignof(zero) == 0 {
		return unsafe.Slice((*T)(first), n)
	}
	v := make([]T, n)
	_, _ = binary.Decode(data, binary.LittleEndian, v) // the sizes agree
	return v
}

// CopyFloats sets dst to the little-endian numbers in data, which MUST hold len(dst) numbers.
func CopyFloats(dst []float32, data []byte) {
	if len(dst) == 0 {
		return
	}
	if littleEndian {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), len(dst)*int(unsafe.Sizeof(dst[0]))), data)
		return
	}
	_, _ = binary.Decode(data, binary.LittleEndian, dst) // the sizes agree
}

// converters convert the data of a file to float32, by element type.
var converters = map[dtype]func(dst []float32, data []byte){f32: CopyFloats, f16: copyHalves, bf16: copyBrains}

// copyBrains converts bfloat16, the upper half of a float32.
func copyBrains(dst []float32, data []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16)
	}
}

// copyHalves converts float16 (IEEE 754 binary16).
func copyHalves(dst []float32, data []byte) {
	for i := range dst {
		dst[i] = float16.Frombits(binary.LittleEndian.Uint16(data[2*i:])).Float32()
	}
}
