package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

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
