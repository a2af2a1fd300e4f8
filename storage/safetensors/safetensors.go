// Package safetensors reads and writes the safetensors format: an 8-byte
// little-endian length, a JSON header of that length that says of each tensor
// its type, shape and place, and the tensors' bytes without gaps
// (https://github.com/huggingface/safetensors, "Format"). Of its types it
// handles F32 and I64.
//
// Equal tensors and metadata give equal bytes: the header's names are sorted,
// the tensors stand in the order given, and the data begin at a multiple of 8.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unsafe"
)

// Tensor is a named array, row-major. Exactly one of Float32 and Int64 holds
// its elements, as many as the product of Shape, which is 1 for no dimensions.
type Tensor struct {
	Name    string
	Shape   []int
	Float32 []float32
	Int64   []int64
}

// File is the content of a file.
type File struct {
	// Tensors are in the order of their bytes.
	Tensors  []Tensor
	Metadata map[string]string
}

// Tensor returns the tensor of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	for _, t := range f.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return Tensor{}, false
}

// metadataName is the header's field for metadata; no tensor may be called so.
const metadataName = "__metadata__"

// maxHeader bounds the header, in bytes.
const maxHeader = 16 << 20

// maxDimensions bounds the rank of a tensor.
const maxDimensions = 16

// ErrFormat is wrapped by every error of Unmarshal: the bytes are no file of
// this format, or a damaged one.
var ErrFormat = errors.New("not a valid safetensors file")

// entry is a tensor in the header.
type entry struct {
	Type    string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// Marshal writes a file. Names must be distinct and not empty.
func Marshal(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	header := map[string]any{}
	if len(metadata) > 0 {
		header[metadataName] = metadata
	}
	end := int64(0)
	for _, t := range tensors {
		e, err := t.describe(end)
		if err != nil {
			return nil, err
		}
		if _, twice := header[t.Name]; twice || t.Name == "" || t.Name == metadataName {
			return nil, fmt.Errorf("tensor name %q is reserved, empty or given twice", t.Name)
		}
		header[t.Name] = e
		end = e.Offsets[1]
	}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	if len(text) > maxHeader {
		return nil, fmt.Errorf("header of %d bytes: want at most %d", len(text), maxHeader)
	}
	data := make([]byte, 0, 8+len(text)+int(end))
	data = binary.LittleEndian.AppendUint64(data, uint64(len(text)))
	data = append(data, text...)
	for _, t := range tensors {
		data = t.append(data)
	}
	return data, nil
}

// describe is the header's entry of a tensor whose bytes begin at offset.
func (t Tensor) describe(offset int64) (entry, error) {
	e := entry{Type: "F32", Shape: t.Shape}
	have, size := len(t.Float32), int64(4)
	if t.Int64 != nil {
		e.Type, have, size = "I64", len(t.Int64), 8
	}
	if e.Shape == nil {
		e.Shape = []int{}
	}
	n, err := elements(t.Shape)
	if err != nil || n != int64(have) {
		return e, fmt.Errorf("tensor %q has %d elements, its shape is %v", t.Name, have, t.Shape)
	}
	e.Offsets = [2]int64{offset, offset + n*size}
	return e, nil
}

func (t Tensor) append(data []byte) []byte {
	for _, v := range t.Float32 {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	for _, v := range t.Int64 {
		data = binary.LittleEndian.AppendUint64(data, uint64(v))
	}
	return data
}

// elements is the product of a shape.
func elements(shape []int) (int64, error) {
	if len(shape) > maxDimensions {
		return 0, fmt.Errorf("%d dimensions: want at most %d", len(shape), maxDimensions)
	}
	n := int64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		if d > 0 && n > math.MaxInt64/8/int64(d) {
			return 0, fmt.Errorf("shape %v overflows", shape)
		}
		n *= int64(d)
	}
	return n, nil
}

// Unmarshal reads a file. Everything in it is checked: the header's size and
// form, types, shapes, and that the tensors fill the data without gap or
// overlap. Where the machine's byte order and alignment allow it, the tensors
// share the memory of data, which must then not change.
func Unmarshal(data []byte) (File, error) {
	f, err := unmarshal(data)
	if err != nil {
		return File{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return f, nil
}

func unmarshal(data []byte) (File, error) {
	if len(data) < 8 {
		return File{}, fmt.Errorf("%d bytes are too few", len(data))
	}
	size := binary.LittleEndian.Uint64(data)
	if size > maxHeader || size > uint64(len(data)-8) {
		return File{}, fmt.Errorf("header of %d bytes: the file has %d, and the limit is %d", size, len(data), maxHeader)
	}
	names, entries, metadata, err := readHeader(data[8 : 8+size])
	if err != nil {
		return File{}, err
	}
	return assemble(names, entries, metadata, data[8+size:])
}

// readHeader decodes the header token by token, since a decoder into a map
// would let a name given twice pass.
func readHeader(text []byte) (names []string, entries map[string]entry, metadata map[string]string, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, nil, fmt.Errorf("the header is no JSON object")
	}
	entries = map[string]entry{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, nil, nil, fmt.Errorf("header: %w", err)
		}
		name := t.(string) // within an object, a key
		if name == metadataName {
			if metadata != nil {
				return nil, nil, nil, fmt.Errorf("metadata given twice")
			}
			if err := d.Decode(&metadata); err != nil {
				return nil, nil, nil, fmt.Errorf("metadata: %w", err)
			}
			continue
		}
		var e entry
		if err := d.Decode(&e); err != nil {
			return nil, nil, nil, fmt.Errorf("tensor %.80q: %w", name, err)
		}
		if _, twice := entries[name]; twice || name == "" {
			return nil, nil, nil, fmt.Errorf("tensor name %.80q is empty or given twice", name)
		}
		entries[name] = e
		names = append(names, name)
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, nil, fmt.Errorf("header: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, nil, fmt.Errorf("more text after the header's object")
	}
	return names, entries, metadata, nil
}

// assemble cuts the tensors out of the data.
func assemble(names []string, entries map[string]entry, metadata map[string]string, data []byte) (File, error) {
	slices.SortStableFunc(names, func(a, b string) int {
		x, y := entries[a].Offsets, entries[b].Offsets
		return slices.Compare(x[:], y[:])
	})
	f := File{Metadata: metadata}
	end := int64(0)
	for _, name := range names {
		e := entries[name]
		if e.Offsets[0] != end || e.Offsets[1] < end || e.Offsets[1] > int64(len(data)) {
			return File{}, fmt.Errorf("tensor %.80q is at %v: want it to begin at %d and end within %d", name, e.Offsets, end, len(data))
		}
		end = e.Offsets[1]
		t, err := e.tensor(name, data[e.Offsets[0]:end:end])
		if err != nil {
			return File{}, err
		}
		f.Tensors = append(f.Tensors, t)
	}
	if end != int64(len(data)) {
		return File{}, fmt.Errorf("%d bytes after the last tensor", int64(len(data))-end)
	}
	return f, nil
}

func (e entry) tensor(name string, data []byte) (Tensor, error) {
	t := Tensor{Name: name, Shape: e.Shape}
	size := map[string]int64{"F32": 4, "I64": 8}[e.Type]
	if size == 0 {
		return t, fmt.Errorf("tensor %.80q has type %.20q: want F32 or I64", name, e.Type)
	}
	n, err := elements(e.Shape)
	if err != nil {
		return t, fmt.Errorf("tensor %.80q: %w", name, err)
	}
	if n*size != int64(len(data)) {
		return t, fmt.Errorf("tensor %.80q of shape %v and type %s has %d bytes: want %d", name, e.Shape, e.Type, len(data), n*size)
	}
	if e.Type == "F32" {
		t.Float32 = float32s(data)
	} else {
		t.Int64 = int64s(data)
	}
	return t, nil
}

// littleEndian reports whether the machine's byte order is the file's.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// float32s is data as numbers: the same memory if it can be.
func float32s(data []byte) []float32 {
	if len(data) == 0 {
		return []float32{}
	}
	if first := unsafe.Pointer(&data[0]); littleEndian && uintptr(first)%4 == 0 {
		return unsafe.Slice((*float32)(first), len(data)/4)
	}
	out := make([]float32, len(data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}

func int64s(data []byte) []int64 {
	out := make([]int64, len(data)/8)
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return out
}
