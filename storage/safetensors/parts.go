package safetensors

import "fmt"

// Parts reads a file one part after the other: whoever copies the values of a large
// file need not hold its bytes beside them.
type Parts struct {
	read    func(offset, length int64) ([]byte, error)
	start   int64 // of the data, in bytes
	size    int64 // of the data
	entries []namedEntry
	// Metadata is nil if the file has none. It must not be changed.
	Metadata map[string]string
}

// partBytes is how many bytes of data are read at a time: a whole number of elements.
const partBytes = 8 << 20

// OpenParts reads and checks the header of a file of size bytes. read returns length
// bytes from offset, all of them inside the file; they are only read. Bytes that are not a
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

// Tensors is their number.
func (p *Parts) Tensors() int { return len(p.entries) }

// Shape returns the shape of the named tensor, and whether it is of float32. It must not be
// changed.
func (p *Parts) Shape(name string) (shape []int, floats, ok bool) {
	for _, e := range p.entries {
		if e.name == name {
			return e.Shape, e.DType == f32, true
		}
	}
	return nil, false, false
}

// Floats copies values of tensors to where into says, which returns a vector of the tensor's
// length, or nil to leave a tensor out. Parts of the file where nothing is wanted are not
// read. Elements of another type than float32 are an error.
func (p *Parts) Floats(into func(name string) []float32) error {
	for from := int64(0); from < p.size; from += partBytes {
		if err := p.floats(from, min(from+partBytes, p.size), into); err != nil {
			return err
		}
	}
	return nil
}

// floats copies what lies from byte from up to byte to of the data.
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

// checkFloats says whether the tensor is as many float32.
func (e namedEntry) checkFloats(n int) error {
	if have := (e.Offsets[1] - e.Offsets[0]) / e.DType.size(); e.DType != f32 || have != int64(n) {
		return fmt.Errorf("safetensors: tensor %q has %d elements of %s: they cannot be copied to %d of %s", e.name, have, e.DType, n, f32)
	}
	return nil
}

// CopyFloats copies what of the tensor lies in data, which starts at byte from of the file's.
func (e namedEntry) CopyFloats(dst []float32, from int64, data []byte) {
	first, end := max(e.Offsets[0], from), min(e.Offsets[1], from+int64(len(data)))
	at := (first - e.Offsets[0]) / f32.size()
	CopyFloats(dst[at:at+(end-first)/f32.size()], data[first-from:end-from])
}
