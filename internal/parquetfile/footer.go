// Package parquetfile reads columns of Parquet files that may be damaged or hostile. It compares
// every number of a file with the available bytes before using it: memory is at most proportional
// to the size of a page, and no file causes a panic. The format is defined by
// https://github.com/apache/parquet-format. An *UnsupportedError rejects encryption, columns in
// other files, and obsolete encodings and codecs (BIT_PACKED, LZO, LZ4 with Hadoop's frames).
//
//	f, err := parquetfile.Open(file, size, ratio)
//	for g := range f.Groups() {
//		column := f.Read(g, leaf) // of f.Leaves()
//		for range f.Rows(g) {
//			v, err := column.Next()
//			…
//		}
//	}
package parquetfile

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// File is an open Parquet file.
type File struct {
	reader  io.ReaderAt
	end     int64 // end of the pages, start of the footer
	ratio   int
	columns []string
	leaves  []Leaf
	groups  []group
	// unchecked skips checksums: tests damage the bytes that they protect.
	unchecked bool
}

// group is a row group, with a chunk for each leaf.
type group struct {
	rows   int64
	chunks []chunk
}

// chunk holds the values of a leaf in a row group, in pages from an offset on.
type chunk struct {
	start, values int64
	codec         codec
}

// Limits of a footer.
const (
	magicBytes  = 4
	tailBytes   = 8 // of the file: the footer's length and the magic
	maxFooter   = 64 << 20
	maxElements = 1 << 16 // of a schema
)

// Open reads the footer of a file of size bytes. After its first 16 MiB, a decompressed page may be
// ratio times its compressed size. Errors of the reader are returned unwrapped.
func Open(r io.ReaderAt, size int64, ratio int) (*File, error) {
	footer, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	f := &File{reader: r, end: size - tailBytes - int64(len(footer)), ratio: ratio}
	t := thrift{data: footer}
	var elements []element
	encrypted := false
	t.fields(typeStruct, func(id int64, kind byte) {
		switch id {
		case 2:
			t.list(kind, func(kind byte) { elements = append(elements, t.element(kind, len(elements))) })
		case 4:
			t.list(kind, func(kind byte) { f.groups = append(f.groups, t.group(kind)) })
		case 8:
			encrypted = true
		}
	})
	switch {
	case encrypted:
		return nil, unsupported("the file is encrypted")
	case t.err != nil:
		return nil, fmt.Errorf("the footer is damaged: %w", t.err)
	}
	if err := f.addSchema(elements); err != nil {
		return nil, err
	}
	return f, f.check()
}

// readFooter checks the file's magic numbers and reads the footer.
func readFooter(r io.ReaderAt, size int64) ([]byte, error) {
	if size < magicBytes+tailBytes {
		return nil, fmt.Errorf("the file has %d bytes: it is cut", size)
	}
	var head [magicBytes]byte
	var tail [tailBytes]byte
	if err := readAt(r, head[:], 0); err != nil {
		return nil, err
	}
	if err := readAt(r, tail[:], size-tailBytes); err != nil {
		return nil, err
	}
	n, mark := int64(binary.LittleEndian.Uint32(tail[:])), string(tail[magicBytes:])
	switch {
	case string(head[:]) == "PARE" || mark == "PARE":
		return nil, unsupported("the file is encrypted")
	case string(head[:]) != "PAR1":
		return nil, fmt.Errorf("the file begins with %q; expected \"PAR1\"", head)
	case mark != "PAR1":
		return nil, fmt.Errorf("the file ends with %q; expected \"PAR1\": it is cut", mark)
	case n > size-tailBytes-magicBytes || n > maxFooter:
		return nil, fmt.Errorf("the footer would have %d bytes, in a file of %d", n, size)
	}
	footer := make([]byte, n)
	return footer, readAt(r, footer, size-tailBytes-n)
}

// readAt fills a buffer from an offset.
func readAt(r io.ReaderAt, buffer []byte, at int64) error {
	n, err := r.ReadAt(buffer, at)
	if n == len(buffer) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (t *thrift) group(kind byte) (g group) {
	t.fields(kind, func(id int64, kind byte) {
		switch id {
		case 1:
			t.list(kind, func(kind byte) { g.chunks = append(g.chunks, t.chunk(kind)) })
		case 3:
			g.rows = t.integer(kind)
		}
	})
	if g.rows < 0 {
		t.fail(fmt.Errorf("a group of %d rows", g.rows))
	}
	return g
}

func (t *thrift) chunk(kind byte) (c chunk) {
	known := false
	t.fields(kind, func(id int64, kind byte) {
		switch id {
		case 1:
			t.fail(unsupported("a column in the file %q", t.binary(kind)))
		case 3:
			known = true
			c = t.chunkMeta(kind)
		case 8:
			t.fail(unsupported("an encrypted column"))
		}
	})
	if !known {
		t.fail(errors.New("a column without a description"))
	}
	return c
}

func (t *thrift) chunkMeta(kind byte) (c chunk) {
	dictionary, found := int64(0), 0
	t.fields(kind, func(id int64, kind byte) {
		switch id {
		case 4:
			c.codec = codec(t.integer(kind))
			found++
		case 5:
			c.values = t.integer(kind)
			found++
		case 9:
			c.start = t.integer(kind)
			found++
		case 11:
			dictionary = t.integer(kind)
		}
	})
	if found < 3 {
		t.fail(errors.New("a column without its place"))
	}
	// Some writers set the dictionary's offset to 0, or set one without a dictionary.
	if dictionary > 0 && dictionary < c.start {
		c.start = dictionary
	}
	return c
}

// check compares the parts of a footer.
func (f *File) check() error {
	for i, g := range f.groups {
		if len(g.chunks) != len(f.leaves) {
			return fmt.Errorf("group %d of rows has %d columns, and the schema %d", i+1, len(g.chunks), len(f.leaves))
		}
		for j, c := range g.chunks {
			if c.values < 0 || c.values > 0 && (c.start < magicBytes || c.start >= f.end) {
				return fmt.Errorf("the column %q has %d values at byte %d of a file of %d", f.leaves[j].Name(), c.values, c.start, f.end)
			}
		}
	}
	return nil
}

// Columns returns the names of the schema's top-level columns, in order.
func (f *File) Columns() []string { return f.columns }

// Leaves returns the columns that have values.
func (f *File) Leaves() []Leaf { return f.leaves }

// Groups returns the number of row groups.
func (f *File) Groups() int { return len(f.groups) }

// Rows returns the number of rows that a row group claims to have.
func (f *File) Rows(group int) int64 { return f.groups[group].rows }

// Name returns the path of a leaf, joined by dots.
func (l *Leaf) Name() string { return strings.Join(l.Path, ".") }

// UnsupportedError names a feature of a file that this package does not read.
type UnsupportedError struct{ Feature string }

func (e *UnsupportedError) Error() string { return e.Feature + ", which is not supported" }

func unsupported(format string, args ...any) error {
	return &UnsupportedError{fmt.Sprintf(format, args...)}
}

// Readable returns an error for a leaf with values that Text cannot write.
func (l *Leaf) Readable() error {
	switch l.Meaning {
	case Decimal:
		return unsupported("the column %q holds decimals; cast it to double or text", l.Name())
	case Interval:
		return unsupported("the column %q holds intervals; cast it to text", l.Name())
	case Float16:
		return unsupported("the column %q holds numbers of 16 bits; cast it to float", l.Name())
	case Plain, Unsigned, Seconds, UUID:
	}
	return nil
}

// Text formats a value that is not null: a number in decimal, a timestamp in seconds since 1970,
// a UUID in hexadecimal, and bytes unchanged.
func (l *Leaf) Text(v Value) (string, error) {
	switch l.Kind {
	case Boolean:
		return strconv.FormatBool(v.Bits != 0), nil
	case Int32, Int64:
		return l.integer(int64(v.Bits))
	case Int96:
		return seconds96(v.Bytes), nil
	case Float:
		return strconv.FormatFloat(float64(math.Float32frombits(uint32(v.Bits))), 'g', -1, 32), nil
	case Double:
		return strconv.FormatFloat(math.Float64frombits(v.Bits), 'g', -1, 64), nil
	case Bytes, FixedBytes:
	}
	if l.Meaning == UUID && len(v.Bytes) == 16 {
		x := hex.EncodeToString(v.Bytes)
		return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:], nil
	}
	return string(v.Bytes), nil
}

func (l *Leaf) integer(x int64) (string, error) {
	if l.Meaning == Seconds {
		return strconv.FormatFloat(float64(x)/l.PerSecond, 'f', -1, 64), nil
	}
	if l.Meaning == Unsigned && x < 0 {
		most := int64(math.MaxInt64)
		if l.Kind == Int32 {
			most = math.MaxInt32
		}
		return "", fmt.Errorf("the column %q has a number without sign above %d; cast it to text", l.Name(), most)
	}
	return strconv.FormatInt(x, 10), nil
}

// seconds96 returns the seconds since 1970 of a timestamp of 96 bits: nanoseconds of the day, and
// the Julian day (Spark, Impala).
func seconds96(b []byte) string {
	const unixDay = 2440588
	nanoseconds := int64(binary.LittleEndian.Uint64(b))
	day := int64(binary.LittleEndian.Uint32(b[8:])) - unixDay
	return strconv.FormatFloat(float64(day)*86400+float64(nanoseconds)/1e9, 'f', -1, 64)
}

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

// fields calls do for each field of a struct. do reads the value, or leaves it.
func (t *thrift) fields(kind byte, do func(id int64, kind byte)) {
	t.want(kind, kind == typeStruct)
	t.fieldsWithin(0, do)
}

func (t *thrift) fieldsWithin(depth int, do func(id int64, kind byte)) {
	for id := int64(0); t.err == nil; {
		head := t.byte()
		if head == 0 {
			return
		}
		if id += int64(head >> 4); head>>4 == 0 {
			id = zigzag(t.uvarint())
		}
		if t.err != nil {
			return
		}
		start := t.at
		if do(id, head&15); t.at == start { // a bool has no bytes
			t.skip(head&15, depth+1)
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
		t.fieldsWithin(depth, func(int64, byte) {})
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
