package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Value is one value of a leaf.
type Value struct {
	Null bool
	// Bits holds a number in the width of its kind, sign-extended to 64 bits if signed; 1 for a
	// Boolean that is true.
	Bits uint64
	// Bytes holds a value of kind Bytes, FixedBytes or Int96, valid until the next read.
	Bytes []byte
}

// decoder returns the values of a page that are not null, in order. It is called as often as
// the page claims to have values.
type decoder interface{ next(*Value) error }

var errShort = fmt.Errorf("the page has fewer values than its header says: %w", io.ErrUnexpectedEOF)

// bitsOf returns the bits of a number in the width of its kind.
func (k Kind) bitsOf(data []byte) uint64 {
	switch len(data) {
	case 4:
		if k == Float {
			return uint64(binary.LittleEndian.Uint32(data))
		}
		return uint64(int32(binary.LittleEndian.Uint32(data)))
	case 8:
		return binary.LittleEndian.Uint64(data)
	}
	return 0
}

// bytes returns the length of a leaf's values; 0 if each has its own length, or is a bit.
func (l *Leaf) bytes() int {
	switch l.Kind {
	case Int32, Float:
		return 4
	case Int64, Double:
		return 8
	case Int96:
		return 12
	case FixedBytes:
		return l.width
	case Boolean, Bytes:
	}
	return 0
}

// set sets a value to the bytes of a number or a text.
func (l *Leaf) set(v *Value, data []byte) {
	v.Bytes, v.Bits = data, l.Kind.bitsOf(data)
}

// plain is the encoding PLAIN.
type plain struct {
	leaf *Leaf
	data []byte
	bit  int // of a boolean
}

func (p *plain) next(v *Value) error {
	n := p.leaf.bytes()
	switch {
	case p.leaf.Kind == Boolean:
		if p.bit/8 >= len(p.data) {
			return errShort
		}
		v.Bits = uint64(p.data[p.bit/8] >> (p.bit % 8) & 1)
		p.bit++
		return nil
	case n == 0:
		if len(p.data) < 4 {
			return errShort
		}
		long := binary.LittleEndian.Uint32(p.data)
		if p.data = p.data[4:]; uint64(long) > uint64(len(p.data)) {
			return errShort
		}
		n = int(long)
	case len(p.data) < n:
		return errShort
	}
	p.leaf.set(v, p.data[:n])
	p.data = p.data[n:]
	return nil
}

// dictionary holds the values that index pages refer to.
type dictionary struct {
	leaf   *Leaf
	data   []byte
	starts []uint32 // of values with their own length prefix
	values int
}

func newDictionary(leaf *Leaf, page []byte, values int) (*dictionary, error) {
	d := &dictionary{leaf: leaf, data: page, values: values}
	if n := leaf.bytes(); n > 0 {
		if len(page)/n < values {
			return nil, errShort
		}
		return d, nil
	}
	if leaf.Kind != Bytes || len(page)/4 < values {
		return nil, errShort
	}
	d.starts = make([]uint32, values)
	at := uint64(0)
	for i := range d.starts {
		if at+4 > uint64(len(page)) {
			return nil, errShort
		}
		d.starts[i] = uint32(at)
		at += 4 + uint64(binary.LittleEndian.Uint32(page[at:]))
	}
	if at > uint64(len(page)) {
		return nil, errShort
	}
	return d, nil
}

func (d *dictionary) lookUp(i uint32, v *Value) error {
	if uint64(i) >= uint64(d.values) {
		return fmt.Errorf("value %d of a dictionary of %d", i, d.values)
	}
	if n := d.leaf.bytes(); n > 0 {
		d.leaf.set(v, d.data[int(i)*n:int(i+1)*n])
		return nil
	}
	value := d.data[d.starts[i]:]
	d.leaf.set(v, value[4:4+binary.LittleEndian.Uint32(value)])
	return nil
}

// indexes is the encoding RLE_DICTIONARY.
type indexes struct {
	hybrid
	values *dictionary
}

func newIndexes(data []byte, values *dictionary) (decoder, error) {
	switch {
	case values == nil:
		return nil, errors.New("the page refers to a dictionary that is not there")
	case len(data) == 0:
		return &indexes{values: values}, nil // only nulls
	}
	h, err := newHybrid(data[1:], data[0])
	return &indexes{h, values}, err
}

func (d *indexes) next(v *Value) error {
	i, err := d.hybrid.next()
	if err != nil {
		return err
	}
	return d.values.lookUp(i, v)
}

// flags is the encoding RLE of booleans.
type flags struct{ hybrid }

func newFlags(data []byte) (decoder, error) {
	runs, _, err := prefixed(data)
	if err != nil {
		return nil, err
	}
	h, err := newHybrid(runs, 1)
	return &flags{h}, err
}

func (d *flags) next(v *Value) error {
	bit, err := d.hybrid.next()
	v.Bits = uint64(bit)
	return err
}

// prefixed splits off a part that is preceded by its length in 4 bytes.
func prefixed(data []byte) (first, rest []byte, err error) {
	if len(data) < 4 {
		return nil, nil, errShort
	}
	n := binary.LittleEndian.Uint32(data)
	if data = data[4:]; uint64(n) > uint64(len(data)) {
		return nil, nil, errShort
	}
	return data[:n], data[n:], nil
}

// hybrid reads runs of equal numbers and bit-packed numbers (Encodings.md, "Run Length Encoding
// / Bit-Packing Hybrid").
type hybrid struct {
	data  []byte
	width uint
	left  uint64 // remaining numbers of the run
	value uint32 // repeated value of the run
	bits  []byte // of a packed run; nil for a repeated value
	at    uint   // in bits
}

func newHybrid(data []byte, width byte) (hybrid, error) {
	if width > 32 {
		return hybrid{}, fmt.Errorf("numbers of %d bits", width)
	}
	return hybrid{data: data, width: uint(width)}, nil
}

func (h *hybrid) next() (uint32, error) {
	for h.left == 0 {
		if err := h.begin(); err != nil {
			return 0, err
		}
	}
	h.left--
	if h.bits == nil {
		return h.value, nil
	}
	x := uint32(bitsAt(h.bits, h.at, h.width))
	h.at += h.width
	return x, nil
}

func (h *hybrid) begin() error {
	head, n := binary.Uvarint(h.data)
	if n <= 0 {
		return errShort
	}
	h.data = h.data[n:]
	if head&1 == 0 {
		return h.beginEqual(head >> 1)
	}
	// Eight numbers of n bits occupy n bytes. The last group may be truncated.
	eights := head >> 1
	if h.width == 0 {
		h.bits, h.value, h.left = nil, 0, min(eights, 1<<32)*8
		return nil
	}
	size := min(eights, uint64(len(h.data))) * uint64(h.width)
	size = min(size, uint64(len(h.data)))
	h.bits, h.at, h.data = h.data[:size:size], 0, h.data[size:]
	h.left = min(eights*8, size*8/uint64(h.width))
	if h.left == 0 && eights > 0 {
		return errShort
	}
	return nil
}

func (h *hybrid) beginEqual(length uint64) error {
	n := int(h.width+7) / 8
	if len(h.data) < n {
		return errShort
	}
	h.value = 0
	for i := range n {
		h.value |= uint32(h.data[i]) << (8 * i)
	}
	h.bits, h.left, h.data = nil, length, h.data[n:]
	return nil
}

// bitsAt returns width bits, at most 64, from bit at, the lowest first. Beyond the end they are 0.
func bitsAt(data []byte, at, width uint) uint64 {
	i, shift := at/8, at%8
	if i+9 <= uint(len(data)) {
		low := binary.LittleEndian.Uint64(data[i:]) >> shift
		if shift > 0 {
			low |= uint64(data[i+8]) << (64 - shift)
		}
		return low & (1<<width - 1)
	}
	x := uint64(0)
	for b := range width {
		if at := at + b; at/8 < uint(len(data)) {
			x |= uint64(data[at/8]>>(at%8)&1) << b
		}
	}
	return x
}
