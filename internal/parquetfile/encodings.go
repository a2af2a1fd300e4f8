package parquetfile

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
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

var errShort = fmt.Errorf("the page has fewer values than its header states: %w", io.ErrUnexpectedEOF)

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

func (l *Leaf) set(v *Value, data []byte) { v.Bytes, v.Bits = data, l.Kind.bitsOf(data) }

// plain is the encoding PLAIN.
type plain struct {
	leaf *Leaf
	data []byte
	bit  int // of a boolean
}

func (p *plain) next(v *Value) (err error) {
	if p.leaf.Kind == Boolean {
		if p.bit/8 >= len(p.data) {
			return errShort
		}
		v.Bits = uint64(p.data[p.bit/8] >> (p.bit % 8) & 1)
		p.bit++
		return nil
	}
	var value []byte
	switch n := p.leaf.bytes(); {
	case n == 0:
		value, p.data, err = prefixed(p.data)
	case len(p.data) < n:
		return errShort
	default:
		value, p.data = p.data[:n], p.data[n:]
	}
	p.leaf.set(v, value)
	return err
}

// dictionary holds the values that index pages refer to.
type dictionary struct {
	leaf   *Leaf
	data   []byte
	starts []uint32 // of the values, in the encoding PLAIN
}

func newDictionary(leaf *Leaf, page []byte, values int) (*dictionary, error) {
	if leaf.Kind == Boolean || len(page)/cmp.Or(leaf.bytes(), 4) < values {
		return nil, errShort
	}
	d := &dictionary{leaf, page, make([]uint32, values)}
	rest := plain{leaf: leaf, data: page}
	for i := range d.starts {
		d.starts[i] = uint32(len(page) - len(rest.data))
		if err := rest.next(new(Value)); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *dictionary) lookUp(i uint32, v *Value) error {
	if uint64(i) >= uint64(len(d.starts)) {
		return fmt.Errorf("value %d of a dictionary of %d", i, len(d.starts))
	}
	value := plain{leaf: d.leaf, data: d.data[d.starts[i]:]}
	return value.next(v)
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

// delta reads the encoding DELTA_BINARY_PACKED: blocks of differences, divided into miniblocks
// of numbers with a common bit width.
type delta struct {
	data         []byte // unread
	total        uint64
	left         uint64 // remaining values
	value        int64
	perMiniblock uint64
	widths       []byte // of the block's remaining miniblocks
	miniblocks   uint64 // per block
	least        int64  // minimum difference
	bits         []byte
	width, at    uint
	leftInBits   uint64
	begun        bool
}

// newDelta reads the header of at most most values.
func newDelta(data []byte, most int) (*delta, error) {
	var head [4]uint64
	for i := range head {
		x, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, errShort
		}
		head[i], data = x, data[n:]
	}
	block, miniblocks, total := head[0], head[1], head[2]
	switch {
	case total > uint64(most):
		return nil, fmt.Errorf("%d differences in a page of %d values", total, most)
	case miniblocks == 0 || block%miniblocks != 0 || block/miniblocks%8 != 0 || block == 0 || block > 1<<30:
		return nil, fmt.Errorf("blocks of %d differences in %d parts", block, miniblocks)
	}
	return &delta{data: data, total: total, left: total, value: zigzag(head[3]), perMiniblock: block / miniblocks, miniblocks: miniblocks}, nil
}

func (d *delta) next() (int64, error) {
	if d.left == 0 {
		return 0, errShort
	}
	d.left--
	if !d.begun {
		d.begun = true
		return d.value, nil
	}
	if d.leftInBits == 0 {
		if err := d.miniblock(); err != nil {
			return 0, err
		}
	}
	d.leftInBits--
	d.value += d.least + int64(bitsAt(d.bits, d.at, d.width))
	d.at += d.width
	return d.value, nil
}

// miniblock begins the next miniblock, and the next block if needed.
func (d *delta) miniblock() error {
	if len(d.widths) == 0 {
		least, n := binary.Uvarint(d.data)
		if n <= 0 || uint64(len(d.data)-n) < d.miniblocks {
			return errShort
		}
		d.least, d.data = zigzag(least), d.data[n:]
		d.widths, d.data = d.data[:d.miniblocks], d.data[d.miniblocks:]
	}
	d.width, d.widths = uint(d.widths[0]), d.widths[1:]
	if d.width > 64 {
		return fmt.Errorf("differences of %d bits", d.width)
	}
	// Writers may truncate the padding after the last value.
	needed := (min(d.perMiniblock, d.left+1)*uint64(d.width) + 7) / 8
	if uint64(len(d.data)) < needed {
		return errShort
	}
	size := min(d.perMiniblock/8*uint64(d.width), uint64(len(d.data)))
	d.bits, d.at, d.data, d.leftInBits = d.data[:size:size], 0, d.data[size:], d.perMiniblock
	return nil
}

func (d *delta) rest() ([]byte, error) {
	ahead := *d
	for ahead.left > 0 {
		if _, err := ahead.next(); err != nil {
			return nil, err
		}
	}
	return ahead.data, nil
}

// integers are values encoded as differences.
type integers struct {
	*delta
	short bool // 32 bits
}

func (d *integers) next(v *Value) error {
	x, err := d.delta.next()
	if d.short {
		x = int64(int32(x))
	}
	v.Bits = uint64(x)
	return err
}

// texts is the encoding DELTA_LENGTH_BYTE_ARRAY and, with prefixes, DELTA_BYTE_ARRAY, in which
// a value shares a prefix with the previous one.
type texts struct {
	leaf              *Leaf
	prefixes, lengths *delta
	data              []byte
	last              []byte
}

func newTexts(leaf *Leaf, data []byte, most int, prefixed bool) (decoder, error) {
	t := &texts{leaf: leaf}
	var err error
	if prefixed {
		if t.prefixes, data, err = deltas(data, most); err != nil {
			return nil, err
		}
	}
	t.lengths, t.data, err = deltas(data, most)
	return t, err
}

// deltas returns decoded differences and the bytes after them.
func deltas(data []byte, most int) (*delta, []byte, error) {
	d, err := newDelta(data, most)
	if err != nil {
		return nil, nil, err
	}
	rest, err := d.rest()
	return d, rest, err
}

func (t *texts) next(v *Value) error {
	length, err := t.lengths.next()
	if err != nil {
		return err
	}
	length = int64(int32(length))
	if length < 0 || length > int64(len(t.data)) {
		return errShort
	}
	value := t.data[:length]
	if t.data = t.data[length:]; t.prefixes != nil {
		prefix, err := t.prefixes.next()
		if err != nil {
			return err
		}
		if prefix < 0 || prefix > int64(len(t.last)) {
			return fmt.Errorf("a text that begins as the first %d bytes of one of %d", prefix, len(t.last))
		}
		t.last = append(t.last[:prefix], value...)
		value = t.last
	}
	if t.leaf.Kind == FixedBytes && len(value) != t.leaf.width {
		return errors.New("a value of another length")
	}
	t.leaf.set(v, value)
	return nil
}

// split is the encoding BYTE_STREAM_SPLIT: the first bytes of all values, then the second bytes.
type split struct {
	leaf      *Leaf
	data      []byte
	at, count int
	value     []byte
}

func newSplit(leaf *Leaf, data []byte) (decoder, error) {
	n := leaf.bytes()
	if n == 0 || len(data)%n != 0 {
		return nil, errors.New("streams of bytes that have no common length")
	}
	return &split{leaf: leaf, data: data, count: len(data) / n, value: make([]byte, n)}, nil
}

func (s *split) next(v *Value) error {
	if s.at >= s.count {
		return errShort
	}
	for i := range s.value {
		s.value[i] = s.data[i*s.count+s.at]
	}
	s.at++
	s.leaf.set(v, slices.Clip(s.value))
	return nil
}
