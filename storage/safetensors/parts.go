package safetensors

import (
	"fmt"
	"iter"
	"slices"
)

// Parts reads a file part by part, so that a caller that copies the values of a large file
// need not also hold its bytes.
type Parts struct {
	read    func(offset, length int64) ([]byte, error)
	start   int64 // of the data, in bytes
	size    int64 // of the data
	entries []namedEntry
	// Metadata is nil if the file has none. It must not be changed.
	Metadata map[string]string
}

// partBytes is the number of bytes of data to read at a time: a whole number of elements.
const partBytes = 8 << 20

// OpenParts reads and checks the header of a file of size bytes. read returns length bytes
// from offset, all inside the file; OpenParts does not modify them. Bytes that are not a
// valid file give an error that wraps ErrFormat.
func OpenParts(size int64, read func(offset, length int64) ([]byte, error)) (*Parts, error) {
	start, err := read(0, min(lengthBytes, size))
	if err != nil {
		return nil, err
	}
	length, err := headerSize(start, size)
	if err != nil {
		return nil, err
	}
	header, err := read(lengthBytes, length)
	if err != nil {
		return nil, err
	}
	p := &Parts{read: read, start: lengthBytes + length, size: size - lengthBytes - length}
	if p.entries, p.Metadata, err = parseHeader(header); err != nil {
		return nil, err
	}
	return p, checkEntries(p.entries, p.size)
}

// PartsOf is OpenParts of a file in memory.
func PartsOf(data []byte) (*Parts, error) {
	return OpenParts(int64(len(data)), func(offset, length int64) ([]byte, error) { return data[offset : offset+length], nil })
}

// Tensors returns the number of tensors.
func (p *Parts) Tensors() int { return len(p.entries) }

// Names yields the names of the tensors, in the order of their data.
func (p *Parts) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range p.entries {
			if !yield(e.name) {
				return
			}
		}
	}
}

// Shape returns the shape of the named tensor, and whether its elements are float32. It must
// not be changed.
func (p *Parts) Shape(name string) (shape []int, floats, ok bool) {
	for _, e := range p.entries {
		if e.name == name {
			return e.Shape, e.DType == f32, true
		}
	}
	return nil, false, false
}

// Floats copies values of tensors into the vectors that into returns: a vector of the
// tensor's length, or nil to skip a tensor. It does not read parts of the file without
// requested tensors. Elements other than float32 are an error.
func (p *Parts) Floats(into func(name string) []float32) error {
	for from := int64(0); from < p.size; from += partBytes {
		if err := p.floats(from, min(from+partBytes, p.size), into); err != nil {
			return err
		}
	}
	return nil
}

// Convert sets dst to the values of the named tensor of float32, float16 or bfloat16; float32
// represents all of them exactly. Another type or length is an error.
func (p *Parts) Convert(name string, dst []float32) error {
	i := slices.IndexFunc(p.entries, func(e namedEntry) bool { return e.name == name })
	if i < 0 {
		return fmt.Errorf("safetensors: there is no tensor %q", name)
	}
	e, convert := p.entries[i], converters[p.entries[i].DType]
	if convert == nil {
		return fmt.Errorf("safetensors: tensor %q has elements of %s; expected %s, %s or %s", name, e.DType, f32, f16, bf16)
	}
	size := e.DType.size()
	if have := (e.Offsets[1] - e.Offsets[0]) / size; have != int64(len(dst)) {
		return fmt.Errorf("safetensors: tensor %q has %d elements; expected %d", name, have, len(dst))
	}
	for from := e.Offsets[0]; from < e.Offsets[1]; from += partBytes {
		data, err := p.read(p.start+from, min(partBytes, e.Offsets[1]-from))
		if err != nil {
			return err
		}
		convert(dst[(from-e.Offsets[0])/size:][:int64(len(data))/size], data)
	}
	return nil
}

func (p *Parts) floats(from, to int64, into func(name string) []float32) error {
	var data []byte
	for _, e := range p.entries {
		dst := into(e.name)
		if dst == nil || e.Offsets[1] <= from || e.Offsets[0] >= to {
			continue
		}
		if err := e.checkFloats(len(dst)); err != nil {
			return err
		}
		if data == nil {
			var err error
			if data, err = p.read(p.start+from, to-from); err != nil {
				return err
			}
		}
		e.CopyFloats(dst, from, data)
	}
	return nil
}

// checkFloats returns an error unless the tensor consists of n float32.
func (e namedEntry) checkFloats(n int) error {
	if have := (e.Offsets[1] - e.Offsets[0]) / e.DType.size(); e.DType != f32 || have != int64(n) {
		return fmt.Errorf("safetensors: tensor %q has %d elements of %s: they cannot be copied to %d of %s", e.name, have, e.DType, n, f32)
	}
	return nil
}

// CopyFloats copies the values of the tensor in data, which starts at byte from of the file's data.
func (e namedEntry) CopyFloats(dst []float32, from int64, data []byte) {
	first, end := max(e.Offsets[0], from), min(e.Offsets[1], from+int64(len(data)))
	at := (first - e.Offsets[0]) / f32.size()
	CopyFloats(dst[at:at+(end-first)/f32.size()], data[first-from:end-from])
}
