package parquetfile

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
)

// Column reads the values of a leaf in a group of rows, in order.
type Column struct {
	file       *File
	leaf       *Leaf
	codec      codec
	at         int64 // of the next page
	left       int64 // values in unread pages
	inPage     int   // unread values of the page
	page       []byte
	compressed []byte
	head       []byte // buffer for page headers
	dictionary *dictionary
	repetition hybrid
	definition hybrid
	ahead      int // repetition level of the next value, -1 if unknown
	value      Value
	decoder
}

// Read begins to read a leaf, by its index in Leaves.
func (f *File) Read(group, leaf int) *Column {
	c := f.groups[group].chunks[leaf]
	return &Column{file: f, leaf: &f.leaves[leaf], codec: c.codec, at: c.start, left: c.values, ahead: -1}
}

// Next reads a value; io.EOF after the last. For a List, Continues reports whether the next value
// belongs to the same row.
func (c *Column) Next() (Value, error) {
	err := c.next()
	if err != nil && err != io.EOF {
		return Value{}, fmt.Errorf("column %q: %w", c.leaf.Name(), err)
	}
	return c.value, err
}

func (c *Column) next() error {
	c.value = Value{}
	if _, err := c.peek(); err != nil {
		return err
	}
	c.ahead = -1
	c.inPage--
	if c.leaf.definition > 0 {
		level, err := c.definition.next()
		if err != nil {
			return err
		}
		if level > uint32(c.leaf.definition) {
			return fmt.Errorf("a value at level %d of %d", level, c.leaf.definition)
		}
		if level < uint32(c.leaf.definition) {
			c.value.Null = true
			return nil
		}
	}
	return c.decoder.next(&c.value)
}

// Continues reports whether another value of the same row follows.
func (c *Column) Continues() (bool, error) {
	level, err := c.peek()
	if err == io.EOF {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("column %q: %w", c.leaf.Name(), err)
	}
	return level > 0, nil
}

// peek returns the repetition level of the next value.
func (c *Column) peek() (int, error) {
	for c.inPage == 0 {
		if c.left == 0 {
			return 0, io.EOF
		}
		if err := c.readPage(); err != nil {
			return 0, noEOF(err)
		}
	}
	if c.ahead < 0 {
		c.ahead = 0
		if c.leaf.repetition > 0 {
			level, err := c.repetition.next()
			if err != nil {
				return 0, err
			}
			c.ahead = int(level)
		}
	}
	return c.ahead, nil
}

// noEOF converts io.EOF to io.ErrUnexpectedEOF: here the end of the file is an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type pageHeader struct {
	kind                     int64
	size, compressed         int
	crc                      uint32
	checked                  bool // has a checksum
	values                   int
	encoding                 int64
	definitions, repetitions int // levels: their encodings in version 1, their lengths in version 2
	plain                    bool
}

// Kinds of pages.
const (
	dataPage       = 0
	dictionaryPage = 2
	dataPageV2     = 3
)

// Encodings, as the format numbers them.
const (
	encodingPlain           = 0
	encodingPlainDictionary = 2
	encodingRLE             = 3
	encodingDelta           = 5
	encodingDeltaLength     = 6
	encodingDeltaBytes      = 7
	encodingDictionary      = 8
	encodingSplit           = 9
)

// Buffer sizes for the header of a page, which may include the minimum and maximum values.
const (
	usualHeader = 1 << 10
	maxHeader   = 16 << 20
)

// freeBytes of a page are allowed at any compression ratio.
const freeBytes = 16 << 20

func (c *Column) readPage() error {
	h, err := c.header()
	if err != nil {
		return err
	}
	if int64(h.compressed) > c.file.end-c.at {
		return io.ErrUnexpectedEOF
	}
	if h.size > freeBytes && h.size/c.file.ratio > h.compressed {
		return fmt.Errorf("a page of %d bytes has more than %d times as many in it, which is the limit: it may be a decompression bomb", h.compressed, c.file.ratio)
	}
	c.compressed = room(c.compressed, h.compressed)
	if err := readAt(c.file.reader, c.compressed, c.at); err != nil {
		return err
	}
	c.at += int64(h.compressed)
	if h.checked && !c.file.unchecked && crc32.ChecksumIEEE(c.compressed) != h.crc {
		return errors.New("the checksum of a page is wrong")
	}
	switch h.kind {
	case dictionaryPage:
		return c.readDictionary(h)
	case dataPage:
		return c.readData(h)
	case dataPageV2:
		return c.readDataV2(h)
	}
	return nil // indexes are not needed
}

// room returns a buffer of length n, reusing buffer if it is large enough.
func room(buffer []byte, n int) []byte {
	if cap(buffer) < n {
		return make([]byte, n)
	}
	return buffer[:n]
}

func (c *Column) header() (h pageHeader, err error) {
	for size := int64(usualHeader); ; size *= 4 {
		size = min(size, c.file.end-c.at)
		if size <= 0 {
			return h, io.ErrUnexpectedEOF
		}
		c.head = room(c.head, int(size))
		t := thrift{data: c.head}
		if err := readAt(c.file.reader, t.data, c.at); err != nil {
			return h, err
		}
		h = t.pageHeader()
		cut := errors.Is(t.err, io.ErrUnexpectedEOF) && size < c.file.end-c.at && size < maxHeader
		if !cut {
			c.at += int64(t.at)
			return h, t.err
		}
	}
}

func (t *thrift) pageHeader() (h pageHeader) {
	found := 0
	t.fields(typeStruct, func(id int64, kind byte) {
		switch id {
		case 1:
			h.kind = t.integer(kind)
			found++
		case 2:
			h.size = t.size(kind)
			found++
		case 3:
			h.compressed = t.size(kind)
			found++
		case 4:
			h.crc, h.checked = uint32(t.integer(kind)), true
		case 5, 7, 8:
			t.dataHeader(kind, id, &h)
		}
	})
	if found < 3 {
		t.fail(errors.New("a page without its size"))
	}
	return h
}

// dataHeader reads the part of a header common to data and dictionary pages.
func (t *thrift) dataHeader(kind byte, version int64, h *pageHeader) {
	fields := map[int64]*int{1: &h.values}
	encoding := int64(2)
	switch version {
	case 5:
		fields[3], fields[4] = &h.definitions, &h.repetitions
	case 8:
		fields[5], fields[6] = &h.definitions, &h.repetitions
		encoding = 4
	}
	t.fields(kind, func(id int64, kind byte) {
		switch at, ok := fields[id]; {
		case ok:
			*at = t.size(kind)
		case id == encoding:
			h.encoding = t.integer(kind)
		case version == 8 && id == 7:
			h.plain = kind == typeFalse
		}
	})
}

func (c *Column) readDictionary(h pageHeader) error {
	if h.encoding != encodingPlain && h.encoding != encodingPlainDictionary {
		return unsupported("a dictionary in the encoding %d", h.encoding)
	}
	page := make([]byte, h.size) // not reused
	if err := c.codec.decode(page, c.compressed); err != nil {
		return err
	}
	var err error
	c.dictionary, err = newDictionary(c.leaf, page, h.values)
	return err
}

// begin counts the values of a data page.
func (c *Column) begin(h pageHeader) error {
	if int64(h.values) > c.left {
		return fmt.Errorf("a page of %d values, of which %d are left in the column", h.values, c.left)
	}
	c.left -= int64(h.values)
	c.inPage = h.values
	return nil
}

// readData begins a page of version 1, which is compressed completely.
func (c *Column) readData(h pageHeader) error {
	c.page = room(c.page, h.size)
	if err := c.codec.decode(c.page, c.compressed); err != nil {
		return err
	}
	data, err := c.page, error(nil)
	if data, err = levels(&c.repetition, data, c.leaf.repetition, h.repetitions); err != nil {
		return err
	}
	if data, err = levels(&c.definition, data, c.leaf.definition, h.definitions); err != nil {
		return err
	}
	if c.decoder, err = c.values(h, data); err != nil {
		return err
	}
	return c.begin(h)
}

// levels begins to read levels, which follow their length; it reads none if all are 0.
func levels(h *hybrid, data []byte, highest, encoding int) (rest []byte, err error) {
	if highest == 0 {
		return data, nil
	}
	if encoding != encodingRLE {
		return nil, unsupported("levels in the encoding %d", encoding)
	}
	runs, rest, err := prefixed(data)
	if err == nil {
		*h, err = newHybrid(runs, byte(bits.Len(uint(highest))))
	}
	return rest, err
}

// readDataV2 begins a page of version 2, in which levels are not compressed.
func (c *Column) readDataV2(h pageHeader) (err error) {
	both := h.repetitions + h.definitions
	if both > len(c.compressed) || both > h.size {
		return errShort
	}
	repetitions, definitions, data := c.compressed[:h.repetitions], c.compressed[h.repetitions:both], c.compressed[both:]
	if c.repetition, err = newHybrid(repetitions, byte(bits.Len(uint(c.leaf.repetition)))); err != nil {
		return err
	}
	if c.definition, err = newHybrid(definitions, byte(bits.Len(uint(c.leaf.definition)))); err != nil {
		return err
	}
	page := data
	if !h.plain {
		c.page = room(c.page, h.size-both)
		page = c.page
		// A page of only nulls may be empty, without a compressor's header.
		if len(data) > 0 || len(page) > 0 {
			if err := c.codec.decode(page, data); err != nil {
				return err
			}
		}
	}
	if c.decoder, err = c.values(h, page); err != nil {
		return err
	}
	return c.begin(h)
}

func (c *Column) values(h pageHeader, data []byte) (decoder, error) {
	kind := c.leaf.Kind
	switch {
	case h.encoding == encodingPlain:
		return &plain{leaf: c.leaf, data: data}, nil
	case h.encoding == encodingDictionary || h.encoding == encodingPlainDictionary:
		return newIndexes(data, c.dictionary)
	case h.encoding == encodingRLE && kind == Boolean:
		return newFlags(data)
	case h.encoding == encodingDelta && (kind == Int32 || kind == Int64):
		return c.deltas(h, data)
	case h.encoding == encodingDeltaLength && kind == Bytes:
		return newTexts(c.leaf, data, h.values, false)
	case h.encoding == encodingDeltaBytes && (kind == Bytes || kind == FixedBytes):
		return newTexts(c.leaf, data, h.values, true)
	case h.encoding == encodingSplit && kind != Boolean && kind != Bytes && kind != Int96:
		return newSplit(c.leaf, data)
	}
	return nil, unsupported("values of type %s in the encoding %d", kind, h.encoding)
}

func (c *Column) deltas(h pageHeader, data []byte) (decoder, error) {
	if len(data) == 0 {
		return &integers{delta: &delta{}}, nil // only nulls
	}
	d, err := newDelta(data, h.values)
	return &integers{d, c.leaf.Kind == Int32}, err
}
