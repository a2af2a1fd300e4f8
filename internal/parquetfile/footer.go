package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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

// Open reads the footer of a file of size bytes. After its first 16 MiB, a decompressed
// page may be ratio times its compressed size. Errors of the reader are returned
// unwrapped.
func Open(r io.ReaderAt, size int64, ratio int) (*File, error) {
	footer, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	f := &File{reader: r, end: size - tailBytes - int64(len(footer)), ratio: ratio}
	t := thrift{data: footer}
	var elements []element
	encrypted := false
	t.fields(typeStruct, func(id int64, kind byte) bool {
		switch id {
		case 2:
			t.list(kind, func(kind byte) { elements = append(elements, t.element(kind, len(elements))) })
		case 4:
			t.list(kind, func(kind byte) { f.groups = append(f.groups, t.group(kind)) })
		case 8:
			encrypted = true
			return false
		default:
			return false
		}
		return true
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
	t.fields(kind, func(id int64, kind byte) bool {
		switch id {
		case 1:
			t.list(kind, func(kind byte) { g.chunks = append(g.chunks, t.chunk(kind)) })
		case 3:
			g.rows = t.integer(kind)
		default:
			return false
		}
		return true
	})
	if g.rows < 0 {
		t.fail(fmt.Errorf("a group of %d rows", g.rows))
	}
	return g
}

func (t *thrift) chunk(kind byte) (c chunk) {
	known := false
	t.fields(kind, func(id int64, kind byte) bool {
		switch id {
		case 1:
			t.fail(unsupported("a column in the file %q", t.binary(kind)))
		case 3:
			known = true
			c = t.chunkMeta(kind)
		case 8:
			t.fail(unsupported("an encrypted column"))
		default:
			return false
		}
		return true
	})
	if !known {
		t.fail(errors.New("a column without a description"))
	}
	return c
}

func (t *thrift) chunkMeta(kind byte) (c chunk) {
	dictionary, found := int64(0), 0
	t.fields(kind, func(id int64, kind byte) bool {
		switch id {
		case 4:
			c.codec = codec(t.integer(kind))
		case 5:
			c.values = t.integer(kind)
		case 9:
			c.start = t.integer(kind)
		case 11:
			dictionary = t.integer(kind)
			return true
		default:
			return false
		}
		found++
		return true
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
