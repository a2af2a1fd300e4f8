// Package safetensors reads and writes the safetensors file format
// (huggingface.co/docs/safetensors): named arrays of numbers and a map of texts,
// in a file that can be mapped into memory and holds no code.
//
//	8 bytes    the length of the header, little-endian
//	header     JSON: {"__metadata__": {...}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//	data       the arrays, little-endian, row by row, one after the other
//
// Equal tensors and metadata give equal bytes: Marshal orders them by element
// size, larger first, then by name, as the reference implementation does, and
// pads the header with spaces so that the data is aligned to 8 bytes.
//
// Of the format's element types this package writes float32 and int64; Parts.Convert also reads
// float16 and bfloat16. Files may be untrusted, so Unmarshal checks everything before it allocates.
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxHeader is the maximum length of a header, in bytes: the limit of the reference implementation
// (MAX_HEADER_SIZE), so that other programs can read the files. A vocabulary of millions of words fits
// in the metadata.
const MaxHeader = 100_000_000

// alignment of the data within the file, in bytes.
const alignment = 8

const metadataKey = "__metadata__"

// ErrFormat is wrapped by the error for bytes that are not a valid file.
var ErrFormat = errors.New("not a valid safetensors file")

// ErrLongHeader is wrapped by the error for a header that would be longer than MaxHeader.
var ErrLongHeader = errors.New("safetensors: the header is too long")

// Tensor is a named array in row-major order. Exactly one of Float32, Int64 and Rounded is not nil,
// and has as many elements as the product of the shape; the empty shape is a single number.
type Tensor struct {
	Name    string
	Shape   []int
	Float32 []float32
	Int64   []int64
	// Rounded is written as float32, each value rounded to the nearest. Reading never sets it.
	Rounded []float64
}

// File is the content of a file.
type File struct {
	// Tensors in the order of their data.
	Tensors []Tensor
	// Metadata is nil if the file has none.
	Metadata map[string]string
}

// Tensor returns the named tensor.
func (f File) Tensor(name string) (Tensor, bool) {
	for _, t := range f.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return Tensor{}, false
}

// dtype is an element type in the file.
type dtype string

const (
	f32  dtype = "F32"
	i64  dtype = "I64"
	f16  dtype = "F16"
	bf16 dtype = "BF16"
)

// sizes maps element types to sizes in bytes. Parts skips tensors of other types.
var sizes = map[dtype]int64{
	f32: 4, i64: 8, f16: 2, bf16: 2,
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "U32": 4, "I32": 4, "U64": 8, "F64": 8,
}

// size returns the size of an element in bytes, 0 for an unknown type.
func (d dtype) size() int64 { return sizes[d] }

// entry describes one tensor in the header.
type entry struct {
	DType   dtype    `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// Marshal encodes tensors and metadata, which may be nil. Names must be unique,
// not empty, valid UTF-8, and not "__metadata__".
func Marshal(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	if err := checkTexts(tensors, metadata); err != nil {
		return nil, err
	}
	ordered := slices.Clone(tensors)
	slices.SortFunc(ordered, func(x, y Tensor) int {
		return cmp.Or(cmp.Compare(y.dtype().size(), x.dtype().size()), strings.Compare(x.Name, y.Name))
	})
	header, size, err := encodeHeader(ordered, metadata)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, lengthBytes+int64(len(header))+size)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(header)))
	out = append(out, header...)
	for _, t := range ordered {
		out = t.append(out)
	}
	return out, nil
}

func (t Tensor) dtype() dtype {
	if t.Int64 != nil {
		return i64
	}
	return f32
}

func (t Tensor) append(out []byte) []byte {
	switch {
	case t.Int64 != nil:
		return appendValues(out, t.Int64)
	case t.Rounded != nil:
		return appendRounded(out, t.Rounded)
	}
	return appendValues(out, t.Float32)
}

// sorts returns the number of value fields that are set.
func (t Tensor) sorts() int {
	n := 0
	for _, given := range []bool{t.Float32 != nil, t.Int64 != nil, t.Rounded != nil} {
		if given {
			n++
		}
	}
	return n
}

func checkTexts(tensors []Tensor, metadata map[string]string) error {
	seen := make(map[string]bool, len(tensors))
	for _, t := range tensors {
		switch {
		case t.Name == "" || t.Name == metadataKey || !utf8.ValidString(t.Name):
			return fmt.Errorf("safetensors: %q cannot name a tensor", t.Name)
		case seen[t.Name]:
			return fmt.Errorf("safetensors: two tensors are named %q", t.Name)
		}
		seen[t.Name] = true
	}
	for key, value := range metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return fmt.Errorf("safetensors: metadata %q is not valid UTF-8", key)
		}
	}
	return nil
}

// encodeHeader returns the padded header and the size of the data in bytes.
func encodeHeader(tensors []Tensor, metadata map[string]string) ([]byte, int64, error) {
	if err := checkHeader(minHeader(metadata)); err != nil {
		return nil, 0, err // before copying
	}
	var fields [][]byte
	if len(metadata) > 0 {
		fields = append(fields, encodeField(metadataKey, metadata))
	}
	var offset int64
	for _, t := range tensors {
		size, err := t.bytes()
		if err != nil {
			return nil, 0, err
		}
		shape := append([]int{}, t.Shape...) // encodes nil as []
		fields = append(fields, encodeField(t.Name, entry{t.dtype(), shape, [2]int64{offset, offset + size}}))
		offset += size
	}
	header := slices.Concat([]byte{'{'}, bytes.Join(fields, []byte{','}), []byte{'}'})
	for len(header)%alignment != 0 { // the length field has 8 bytes
		header = append(header, ' ')
	}
	return header, offset, checkHeader(len(header))
}

func checkHeader(length int) error {
	if length > MaxHeader {
		return fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrLongHeader, length, MaxHeader)
	}
	return nil
}

// minHeader returns a lower bound of the length of the header with the metadata.
func minHeader(metadata map[string]string) (length int) {
	for key, value := range metadata {
		length += len(key) + len(value)
	}
	return length
}

// encodeField returns "key":value. Neither can fail to encode.
func encodeField(key string, value any) []byte {
	k, _ := json.Marshal(key)
	v, _ := json.Marshal(value)
	return slices.Concat(k, []byte{':'}, v)
}

// bytes returns the size of a tensor's data, after comparing it with the shape.
func (t Tensor) bytes() (int64, error) {
	if n := t.sorts(); n != 1 {
		return 0, fmt.Errorf("safetensors: tensor %q: %d sorts of values, want one", t.Name, n)
	}
	size, err := dataSize(t.Shape, t.dtype())
	if err != nil {
		return 0, fmt.Errorf("safetensors: tensor %q: %w", t.Name, err)
	}
	if have := int64(len(t.Float32) + len(t.Int64) + len(t.Rounded)); have != size/t.dtype().size() {
		return 0, fmt.Errorf("safetensors: tensor %q: shape %v has %d elements, there are %d values",
			t.Name, t.Shape, size/t.dtype().size(), have)
	}
	return size, nil
}

// dataSize returns the product of a shape in bytes.
func dataSize(shape []int, d dtype) (int64, error) {
	size := uint64(d.size())
	for _, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		high, low := bits.Mul64(size, uint64(n))
		if high != 0 || low > 1<<62 {
			return 0, fmt.Errorf("shape %v is too large", shape)
		}
		size = low
	}
	return int64(size), nil
}
