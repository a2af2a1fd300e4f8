package datasets

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// Compressed content is known by its first bytes (RFC 1952 section 2.3.1, RFC
// 8878 section 3.1.1, the formats of XZ Utils). No line of JSON begins with them.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	xzMagic   = []byte("\xfd7zXZ\x00")
	xzEnd     = []byte("YZ") // but for zeros that may follow
	lzmaMagic = []byte{0x5d, 0x00, 0x00}
)

// compressed are the ends of names that say so.
var compressed = []string{".gz", ".zst", ".xz", ".lzma"}

// maxZstdWindow bounds what a Zstandard file can make the reader allocate, in
// bytes: the window of `zstd --long=27`, the largest that zstd itself reads
// without being told to.
const maxZstdWindow = 128 << 20

// maxDictionary is the same of xz and lzma: that of `xz -9`.
const maxDictionary = 64 << 20

// plainReader reads the decompressed content of one file. It tells faults of
// the file, which are *SourceError, from faults of the place it is read from.
type plainReader struct {
	name  string
	raw   *faultReader
	plain io.Reader
	close func() error
	// compressed files are watched: out counts the bytes of their lines so far.
	compressed bool
	out        int64
	err        error // that has ended the reading
}

// decompress sniffs how the content of raw is compressed and reads through it.
// Closing the result leaves raw open.
func decompress(name string, raw io.Reader) (*plainReader, error) {
	fault := &faultReader{Reader: raw}
	buffered := bufio.NewReaderSize(fault, 64<<10)
	magic, _ := buffered.Peek(len(xzMagic))
	p := &plainReader{name: name, raw: fault, plain: buffered, close: func() error { return nil }}
	var err error
	switch {
	case fault.err != nil:
		err = fault.err
	case bytes.HasPrefix(magic, gzipMagic):
		err = p.gunzip(buffered)
	case bytes.HasPrefix(magic, zstdMagic):
		err = p.unzstd(buffered)
	case bytes.HasPrefix(magic, xzMagic):
		err = p.unxz(buffered)
	case bytes.HasPrefix(magic, lzmaMagic):
		err = p.unlzma(buffered)
	case slices.ContainsFunc(compressed, func(end string) bool { return strings.HasSuffix(name, end) }):
		return nil, &SourceError{File: name, Err: errors.New("the content is not compressed as the name says; expected gzip for .gz, Zstandard for .zst, .xz or .lzma, or the name of a plain file")}
	}
	if err != nil {
		return nil, p.explain(err)
	}
	return p, nil
}

func (p *plainReader) gunzip(r io.Reader) error {
	z, err := gzip.NewReader(r)
	if err == nil {
		p.plain, p.close, p.compressed = z, z.Close, true
	}
	return err
}

func (p *plainReader) unzstd(r io.Reader) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err == nil {
		p.plain, p.close, p.compressed = z, func() error { z.Close(); return nil }, true
	}
	return err
}

func (p *plainReader) unxz(r io.Reader) error {
	z, err := xz.ReaderConfig{DictCap: maxDictionary}.NewReader(r)
	if err == nil {
		p.plain, p.compressed = &xzReader{z, p.raw}, true
	}
	return err
}

// xzReader sees to it that a file ends as xz files do. The library takes one that is cut between
// two blocks for whole.
type xzReader struct {
	io.Reader
	raw *faultReader
}

func (r *xzReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err == io.EOF && !bytes.HasSuffix(r.raw.tail, xzEnd) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (p *plainReader) unlzma(r io.Reader) error {
	z, err := lzma.ReaderConfig{DictCap: maxDictionary}.NewReader(r)
	if err == nil {
		p.plain, p.compressed = &lzmaReader{Reader: z}, true
	}
	return err
}

// lzmaReader gives all that there is before the place where a file is cut, and then the error.
// The library's gives the error once, before the last of it, and then ends as a whole file does.
type lzmaReader struct {
	io.Reader
	cut error
}

func (r *lzmaReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err == io.ErrUnexpectedEOF && r.cut == nil { //nolint:errorlint // the library gives it as it is
		if r.cut, err = err, nil; n == 0 {
			n, err = r.Reader.Read(b)
		}
	}
	if err == io.EOF && r.cut != nil {
		err = r.cut
	}
	return n, err
}

// Read implements io.Reader. What has ended the reading is said again to whoever reads on.
func (p *plainReader) Read(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.plain.Read(b)
	if err != nil && err != io.EOF {
		err = p.explain(err)
	}
	p.err = err
	return n, err
}

// Close releases the decompressor.
func (p *plainReader) Close() error { return p.close() }

func (p *plainReader) explain(err error) error {
	switch {
	case p.raw.err != nil:
		return fmt.Errorf("reading %s: %w", p.name, p.raw.err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &SourceError{File: p.name, Err: errors.New("the compressed data ends too early: the file is truncated; get it again")}
	}
	return &SourceError{File: p.name, Err: fmt.Errorf("the compressed data is corrupt (%w); get the file again", err)}
}

// faultReader remembers the error that a reader gave, other than its end, and
// what was read last; and counts what was read.
type faultReader struct {
	io.Reader
	err  error
	read int64
	tail []byte // the last two bytes, without zeros at the end
}

func (f *faultReader) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	f.read += int64(n)
	f.tail = lastTwo(append(f.tail, lastTwo(bytes.TrimRight(b[:n], "\x00"))...))
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

func lastTwo(b []byte) []byte { return b[max(0, len(b)-2):] }
