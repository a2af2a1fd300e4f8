package source

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"coalmine/internal/dataformats"
)

// compressed lists name endings of compressed files.
var compressed = []string{".gz", ".zst", ".xz", ".lzma"}

// plainReader reads the decompressed content of one file. It distinguishes faults of the file,
// which are *Error, from errors of the underlying reader.
type plainReader struct {
	*dataformats.Decompressor
	name string
	raw  *faultReader
	out  int64 // bytes of its lines so far
	err  error // the error that ended the reading
}

// openPlain detects the compression of raw and returns a reader of the decompressed content.
// Closing the result leaves raw open.
func openPlain(name string, raw io.Reader, ratio int) (*plainReader, error) {
	p := &plainReader{name: name, raw: &faultReader{Reader: raw}}
	var err error
	p.Decompressor, err = dataformats.NewDecompressor(p.raw, ratio)
	if err == nil {
		err = p.raw.err
	}
	switch {
	case err != nil:
		return nil, p.explain(err)
	case !p.Compressed && slices.ContainsFunc(compressed, func(end string) bool { return strings.HasSuffix(name, end) }):
		return nil, &Error{File: name, Err: errors.New("the content is not compressed, contrary to the name; expected gzip for .gz, Zstandard for .zst, .xz or .lzma, or the name of a plain file")}
	}
	return p, nil
}

// Read implements io.Reader. After an error, each call returns the same error.
func (p *plainReader) Read(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = p.explain(err)
	}
	p.err = err
	return n, err
}

func (p *plainReader) explain(err error) error {
	switch {
	case p.raw.err != nil:
		return fmt.Errorf("reading %s: %w", p.name, p.raw.err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{File: p.name, Err: errors.New("the compressed data ends too early: the file is truncated; get it again")}
	}
	if _, ok := errors.AsType[*dataformats.UnsupportedCompressionError](err); ok {
		return &Error{File: p.name, Err: fmt.Errorf("%w in compressed data; decompress the file", err), mistaken: true}
	}
	return &Error{File: p.name, Err: fmt.Errorf("the compressed data is corrupt (%w); get the file again", err)}
}

// faultReader keeps the error of a reader, other than io.EOF, and counts the bytes read.
type faultReader struct {
	io.Reader
	err  error
	read int64
}

func (f *faultReader) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	f.read += int64(n)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}
