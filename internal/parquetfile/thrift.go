package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// thrift reads Thrift's compact protocol from bytes. The first error persists, and ends all reads.
type thrift struct {
	data []byte
	at   int
	err  error
}

// Types of values in the compact protocol.
const (
	typeTrue   = 1
	typeFalse  = 2
	typeByte   = 3
	typeI16    = 4
	typeI32    = 5
	typeI64    = 6
	typeDouble = 7
	typeBinary = 8
	typeList   = 9
	typeSet    = 10
	typeMap    = 11
	typeStruct = 12
)

// deepest limits nesting; the format needs fewer than 10 levels.
const deepest = 32

func (t *thrift) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

func (t *thrift) byte() byte {
	if t.err == nil && t.at >= len(t.data) {
		t.fail(io.ErrUnexpectedEOF)
	}
	if t.err != nil {
		return 0
	}
	t.at++
	return t.data[t.at-1]
}

func (t *thrift) uvarint() uint64 {
	if t.err != nil {
		return 0
	}
	x, n := binary.Uvarint(t.data[t.at:])
	switch {
	case n == 0:
		t.fail(io.ErrUnexpectedEOF)
	case n < 0:
		t.fail(errors.New("a number of more than 64 bits"))
	default:
		t.at += n
	}
	return x
}

// zigzag decodes an unsigned integer to 0, -1, 1, -2, …
func zigzag(x uint64) int64 { return int64(x>>1) ^ -int64(x&1) }

// binary reads bytes preceded by their length, without a copy.
func (t *thrift) binary(kind byte) []byte {
	t.want(kind, kind == typeBinary)
	n := t.uvarint()
	if t.err == nil && n > uint64(len(t.data)-t.at) {
		t.fail(io.ErrUnexpectedEOF)
	}
	if t.err != nil {
		return nil
	}
	t.at += int(n)
	return t.data[t.at-int(n) : t.at]
}

// integer reads an integer of any length.
func (t *thrift) integer(kind byte) int64 {
	if kind == typeByte {
		return int64(int8(t.byte()))
	}
	t.want(kind, kind == typeI16 || kind == typeI32 || kind == typeI64)
	return zigzag(t.uvarint())
}

// size reads an integer from 0 to 2^31-1.
func (t *thrift) size(kind byte) int {
	n := t.integer(kind)
	if n != int64(int32(n)) || n < 0 {
		t.fail(fmt.Errorf("a size or a number of %d", n))
		return 0
	}
	return int(n)
}

func (t *thrift) want(kind byte, ok bool) {
	if !ok {
		t.fail(fmt.Errorf("a field of the wrong type %d", kind))
	}
}

// fields calls do for each field of a struct. do reads the value and returns true, or leaves it.
func (t *thrift) fields(kind byte, do func(id int64, kind byte) bool) {
	t.want(kind, kind == typeStruct)
	t.fieldsWithin(0, do)
}

func (t *thrift) fieldsWithin(depth int, do func(id int64, kind byte) bool) {
	for id := int64(0); t.err == nil; {
		head := t.byte()
		if head == 0 {
			return
		}
		if id += int64(head >> 4); head>>4 == 0 {
			id = zigzag(t.uvarint())
		}
		if kind := head & 15; t.err == nil && !do(id, kind) {
			t.skip(kind, depth+1)
		}
	}
}

// list calls do to read each element.
func (t *thrift) list(kind byte, do func(kind byte)) {
	t.want(kind, kind == typeList || kind == typeSet)
	head := t.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = t.uvarint()
	}
	for ; n > 0 && t.err == nil; n-- {
		do(head & 15)
	}
}

func (t *thrift) skip(kind byte, depth int) {
	if depth > deepest {
		t.fail(errors.New("values that are nested too deep"))
	}
	if t.err != nil {
		return
	}
	switch kind {
	case typeTrue, typeFalse: // the type encodes the value
	case typeByte:
		t.byte()
	case typeI16, typeI32, typeI64:
		t.uvarint()
	case typeDouble:
		for range 8 {
			t.byte()
		}
	case typeBinary:
		t.binary(kind)
	case typeList, typeSet:
		t.list(kind, func(kind byte) { t.skipElement(kind, depth+1) })
	case typeMap:
		t.skipMap(depth)
	case typeStruct:
		t.fieldsWithin(depth, func(int64, byte) bool { return false })
	default:
		t.want(kind, false)
	}
}

// skipElement skips an element of a list or map, in which a bool takes a byte.
func (t *thrift) skipElement(kind byte, depth int) {
	if kind == typeTrue || kind == typeFalse {
		t.byte()
		return
	}
	t.skip(kind, depth)
}

func (t *thrift) skipMap(depth int) {
	n := t.uvarint()
	if n == 0 || t.err != nil {
		return
	}
	kinds := t.byte()
	for ; n > 0 && t.err == nil; n-- {
		t.skipElement(kinds>>4, depth+1)
		t.skipElement(kinds&15, depth+1)
	}
}
