// These files read content that may be compressed by gzip, Zstandard, xz or lzma, detected by the
// first bytes. They read all that the formats allow, including several members or frames with
// padding between. An *UnsupportedCompressionError names a feature that a library lacks, so that a
// valid file does not appear damaged. Truncated content ends with io.ErrUnexpectedEOF. A reader uses
// the memory of the window that the file asks for, or twice that for a long window: at most 2 GiB in
// Zstandard, less for a small file, and 256 MiB in xz and lzma.

package dataformats

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
	"github.com/ulikunitz/xz/lzma"
)

// Compressed content is recognized by its first bytes (RFC 1952 section 2.3.1, RFC 8878 section 3.1,
// the formats of XZ Utils). lzma has no magic number, but a header that few other files have.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	xzMagic   = []byte("\xfd7zXZ\x00")
)

// Limits on windows: the largest that zstd writes (`zstd --long=31`), and four times the window of
// `xz -9`.
const (
	maxZstdWindow = 2 << 30
	maxDictionary = 256 << 20
)

// UnsupportedCompressionError names an unsupported feature of a file.
type UnsupportedCompressionError struct{ Feature string }

func (e *UnsupportedCompressionError) Error() string { return e.Feature + " is not supported" }

func unsupported(format string, args ...any) error {
	return &UnsupportedCompressionError{fmt.Sprintf(format, args...)}
}

// Decompressor reads decompressed content.
type Decompressor struct {
	io.Reader
	// Compressed reports whether the content was compressed.
	Compressed bool
	close      func()
}

// Close releases the resources of the reader, and leaves the compressed content open.
func (r *Decompressor) Close() {
	if r.close != nil {
		r.close()
	}
}

// NewDecompressor returns a reader of the decompressed content of a file. After the first FreeBytes,
// content may be ratio times the size of the file. It returns errors of the underlying reader
// unchanged, even if the content before them is also damaged.
func NewDecompressor(content io.Reader, ratio int) (*Decompressor, error) {
	in := bufio.NewReaderSize(content, smallFile)
	skipped, err := skipFrames(in)
	if err != nil {
		return nil, err
	}
	head, _ := in.Peek(lzma.HeaderLen) // reading reports the error again
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		return newGzip(in)
	case bytes.HasPrefix(head, zstdMagic):
		return newZstd(in, ratio)
	case bytes.HasPrefix(head, xzMagic):
		return newXZ(in)
	case isLZMA(head):
		return newLZMA(in)
	case skipped && len(head) > 0 && bytes.HasPrefix(zstdMagic, head):
		return nil, io.ErrUnexpectedEOF
	case skipped && len(head) > 0:
		return nil, unsupported("content other than Zstandard after skippable frames")
	}
	return &Decompressor{Reader: in, Compressed: skipped}, nil
}

// SkipMark skips a byte order mark.
func SkipMark(in *bufio.Reader) {
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(3) // Peek has returned them
	}
}

// skipFrames skips the skippable frames (RFC 8878 section 3.1.2) before the first frame with content.
func skipFrames(in *bufio.Reader) (some bool, err error) {
	for {
		head, _ := in.Peek(8)
		if len(head) < 8 || head[0]&0xf0 != 0x50 || !bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}) {
			return some, nil
		}
		size := 8 + int64(binary.LittleEndian.Uint32(head[4:]))
		if _, err := io.CopyN(io.Discard, in, size); err != nil {
			return true, noEOF(err)
		}
		some = true
	}
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func newGzip(in *bufio.Reader) (*Decompressor, error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, noEOF(err)
	}
	z.Multistream(false)
	return &Decompressor{Reader: &gzipReader{z, in}, Compressed: true}, nil
}

// gzipReader reads the members of a file, which may be followed by zeros, as gzip does.
type gzipReader struct {
	*gzip.Reader
	in *bufio.Reader
}

func (r *gzipReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err == io.EOF {
		err = r.member()
	}
	return n, err
}

// member begins the next member; io.EOF if there is none.
func (r *gzipReader) member() error {
	next, err := r.in.Peek(1)
	if err != nil {
		return err
	}
	if next[0] == 0 {
		return onlyZeros(r.in)
	}
	if head, _ := r.in.Peek(len(gzipMagic)); !bytes.HasPrefix(gzipMagic, head) {
		return errors.New("gzip: unexpected content after the last member")
	}
	if err := r.Reset(r.in); err != nil {
		return noEOF(err)
	}
	r.Multistream(false)
	return nil
}

// onlyZeros reads zeros to the end and returns io.EOF.
func onlyZeros(in *bufio.Reader) error {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return err
		}
		if b != 0 {
			return errors.New("gzip: unexpected content after the last member and its zeros")
		}
	}
}

func newZstd(in *bufio.Reader, ratio int) (*Decompressor, error) {
	if whole, err := in.Peek(smallFile); err == io.EOF {
		shrinkWindows(whole, FreeBytes+uint64(len(whole))*uint64(ratio))
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(!hasLongWindow(in)),
		zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderMaxMemory(maxZstdWindow))
	if err != nil {
		return nil, explainZstd(err)
	}
	return &Decompressor{Reader: &explained{z, explainZstd}, Compressed: true, close: z.Close}, nil
}

// hasLongWindow reports whether the first frame has a window longer than zstd reads by default. With
// little memory the library would move all of it for each MiB.
func hasLongWindow(in *bufio.Reader) bool {
	var h zstd.Header
	head, _ := in.Peek(zstd.HeaderMaxSize) // reading reports the error again
	return h.Decode(head) == nil && h.WindowSize > 128<<20
}

func explainZstd(err error) error {
	switch {
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return unsupported("a window of more than %d bytes", int64(maxZstdWindow))
	case errors.Is(err, zstd.ErrUnknownDictionary):
		return unsupported("a dictionary beside the file (zstd -D)")
	}
	return err
}

func newXZ(in io.Reader) (*Decompressor, error) {
	z, err := xz.NewReader(in, maxDictionary)
	if err != nil {
		return nil, explainXZ(err)
	}
	return &Decompressor{Reader: &explained{z, explainXZ}, Compressed: true}, nil
}

func explainXZ(err error) error {
	switch {
	case errors.Is(err, xz.ErrOptions):
		return unsupported("a filter other than LZMA2, Delta and BCJ for x86, PowerPC, IA-64, ARM, ARM-Thumb and SPARC")
	case errors.Is(err, xz.ErrMemlimit):
		return unsupported("a dictionary of more than %d bytes", maxDictionary)
	case errors.Is(err, xz.ErrUnsupportedCheck):
		return unsupported("a check other than CRC32, CRC64 and SHA-256")
	case errors.Is(err, xz.ErrBuf):
		return io.ErrUnexpectedEOF
	}
	return err
}

// explained translates the errors of a library.
type explained struct {
	io.Reader
	explain func(error) error
}

func (e *explained) Read(b []byte) (int, error) {
	n, err := e.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = e.explain(err)
	}
	return n, err
}

// isLZMA recognizes a header of lzma as XZ Utils do: properties of 0 to 224, a dictionary of
// 2^n or 2^n + 2^(n-1) bytes, and a size that is unknown or less than 256 GiB.
func isLZMA(head []byte) bool {
	if len(head) < lzma.HeaderLen || head[0] > 224 {
		return false
	}
	dictionary, size := binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint64(head[5:])
	switch bits.OnesCount32(dictionary) {
	case 1:
	case 2:
		if dictionary>>bits.TrailingZeros32(dictionary) != 3 {
			return false
		}
	default:
		return false
	}
	return dictionary >= lzma.MinDictCap && (size == 1<<64-1 || size < 256<<30)
}

func newLZMA(in io.Reader) (*Decompressor, error) {
	z, err := lzma.ReaderConfig{DictCap: maxDictionary}.NewReader(in)
	if _, ok := errors.AsType[*lzma.ErrDictSize](err); ok {
		return nil, unsupported("a dictionary of more than %d bytes", maxDictionary)
	}
	if err != nil {
		return nil, noEOF(err)
	}
	return &Decompressor{Reader: &lzmaReader{Reader: z}, Compressed: true}, nil
}

// lzmaReader returns the whole content of a truncated file before the error. The library's reader
// returns the error once, before the last content, and then io.EOF.
type lzmaReader struct {
	io.Reader
	cut error
}

func (r *lzmaReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err == io.ErrUnexpectedEOF && r.cut == nil {
		if r.cut, err = err, nil; n == 0 {
			n, err = r.Reader.Read(b)
		}
	}
	if err == io.EOF && r.cut != nil {
		err = r.cut
	}
	return n, err
}

// FreeBytes of a file are allowed at any compression ratio.
const FreeBytes = 16 << 20

// smallFile is the size up to which compressed content is inspected completely before it is read.
const smallFile = 256 << 10

// shrinkWindows lowers the windows of a small file's frames to the size that the file can fill,
// because the library allocates them at once: a few bytes could ask for 2 GiB. Content never refers
// back further than its own length, so it stays the same. The window of a single-segment frame is
// the size of its content; a frame that claims more than the file can hold is invalid.
func shrinkWindows(file []byte, most uint64) {
	for len(file) > 18 { // longest header
		var h zstd.Header
		blocks, err := h.DecodeAndStrip(file)
		if err != nil {
			return // the library refuses it, too
		}
		switch {
		case h.Skippable:
			file = blocks[min(uint64(h.SkippableSize), uint64(len(blocks))):]
			continue
		case !h.SingleSegment && h.WindowSize > most:
			file[5] = byte(bits.Len64(most-1)-10) << 3
		case h.SingleSegment && h.FrameContentSize > most && file[4]>>6 == 2: // a size of 4 bytes
			binary.LittleEndian.PutUint32(file[h.HeaderSize-4:], uint32(most))
		case h.SingleSegment && h.FrameContentSize > most:
			binary.LittleEndian.PutUint64(file[h.HeaderSize-8:], most)
		}
		file = afterFrame(blocks, h.HasCheckSum)
	}
}

// afterFrame returns the content of a file after the blocks and the checksum of a frame.
func afterFrame(blocks []byte, checksum bool) []byte {
	at := 0
	for last := false; !last; {
		if at+3 > len(blocks) {
			return nil
		}
		head := uint(blocks[at]) | uint(blocks[at+1])<<8 | uint(blocks[at+2])<<16
		last = head&1 != 0
		if at += 3; head>>1&3 == 1 {
			at++ // a repeated byte
		} else {
			at += int(head >> 3)
		}
	}
	if checksum {
		at += 4
	}
	return blocks[min(at, len(blocks)):]
}
