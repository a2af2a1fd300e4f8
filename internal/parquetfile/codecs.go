package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// codec is the compression of a chunk's pages, as the format numbers it.
type codec int32

var codecs = map[codec]struct {
	name string
	// decode fills a page and returns the length of the content; nil if unsupported.
	decode func(page, compressed []byte) (int, error)
}{
	0: {"UNCOMPRESSED", uncompressed},
	1: {"SNAPPY", unsnappy},
	2: {"GZIP", ungzip},
	3: {"LZO", nil},
	4: {"BROTLI", unbrotli},
	5: {"LZ4, with the frames of Hadoop", nil},
	6: {"ZSTD", unzstd},
	7: {"LZ4_RAW", unlz4},
}

var errLength = errors.New("the length of the page differs from its header")

// decode fills a page from its compressed bytes. It converts panics of a library on damaged
// bytes to errors.
func (c codec) decode(page, compressed []byte) (err error) {
	scheme, known := codecs[c]
	if !known {
		return unsupported("compression number %d", c)
	}
	if scheme.decode == nil {
		return unsupported("compression by %s", scheme.name)
	}
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", scheme.name, err)
		}
	}()
	n, err := scheme.decode(page, compressed)
	if err == nil && n != len(page) {
		err = errLength
	}
	return err
}

func uncompressed(page, data []byte) (int, error) {
	copy(page, data)
	return len(data), nil
}

func unsnappy(page, data []byte) (int, error) {
	if n, err := snappy.DecodedLen(data); err != nil || n != len(page) {
		return 0, errors.Join(err, errLength)
	}
	_, err := snappy.Decode(page, data)
	return len(page), err
}

func unlz4(page, data []byte) (int, error) { return lz4.UncompressBlock(data, page) }

func ungzip(page, data []byte) (int, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	return fill(page, z)
}

func unbrotli(page, data []byte) (int, error) {
	return fill(page, brotli.NewReader(bytes.NewReader(data)))
}

// fill reads a page from a stream, and at most a byte after it.
func fill(page []byte, stream io.Reader) (int, error) {
	if _, err := io.ReadFull(stream, page); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(stream, make([]byte, 1))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return len(page) + n, err
}

// zstdDecoder decodes into the given buffer.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))
})

func unzstd(page, data []byte) (int, error) {
	z, err := zstdDecoder()
	if err != nil {
		return 0, err
	}
	decoded, err := z.DecodeAll(data, page[:0:len(page)])
	return len(decoded), err
}
