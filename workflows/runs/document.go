package runs

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"golang.org/x/sync/semaphore"
)

// Document is the text of a resolved experiment. Long documents are sent and
// stored compressed: a run's record is one small object, and the cells of a
// grid differ little.
type Document []byte

const (
	// longDocument is the size from which documents are compressed, in bytes.
	longDocument = 64 << 10
	// MaxDocument is the largest document, in bytes: compressed data may come
	// from any client.
	MaxDocument = 64 << 20
)

// gzipMagic begins compressed data (RFC 1952, section 2.3.1), and no JSON.
var gzipMagic = []byte{0x1f, 0x8b}

// MarshalJSON writes the document in base64, compressed if it is long.
func (d Document) MarshalJSON() ([]byte, error) {
	if len(d) < longDocument {
		return json.Marshal([]byte(d))
	}
	if len(d) > MaxDocument {
		return nil, fmt.Errorf("the resolved experiment has %d bytes, at most %d are taken; split its grid", len(d), MaxDocument)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(d); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return json.Marshal(b.Bytes())
}

// UnmarshalJSON reads either form.
func (d *Document) UnmarshalJSON(data []byte) error {
	var stored []byte
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	if bytes.HasPrefix(stored, gzipMagic) {
		var err error
		if stored, err = expand(stored); err != nil {
			return fmt.Errorf("the resolved experiment: %w", err)
		}
	}
	*d = stored
	return nil
}

// unpacking bounds the total size of documents that are unpacked concurrently.
var unpacking = semaphore.NewWeighted(2 * MaxDocument)

// expand unpacks a document. It reserves the stated size before it allocates memory.
func expand(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	r.Multistream(false)
	stated := int64(binary.LittleEndian.Uint32(compressed[len(compressed)-4:])) // RFC 1952, section 2.3.1
	if stated > MaxDocument {
		return nil, fmt.Errorf("it grows to %d bytes; expected at most %d", stated, MaxDocument)
	}
	if err := unpacking.Acquire(context.Background(), stated); err != nil {
		return nil, err
	}
	defer unpacking.Release(stated)
	var data bytes.Buffer
	data.Grow(int(stated) + bytes.MinRead)
	if _, err := data.ReadFrom(io.LimitReader(r, stated+1)); err != nil {
		return nil, err
	}
	if int64(data.Len()) != stated {
		return nil, fmt.Errorf("its size differs from the %d bytes that it states", stated)
	}
	return data.Bytes(), nil
}

// UnpackedSize bounds the memory of a decoded run record, in bytes. record is its JSON.
func UnpackedSize(record []byte) int64 {
	if bytes.Contains(record, packedText) || bytes.Contains(record, []byte(`\u`)) { // an escape may hide it
		return int64(len(record)) + MaxDocument
	}
	return 2 * int64(len(record))
}

// packedText is the beginning of the base64 of a compressed document.
var packedText = []byte(base64.StdEncoding.EncodeToString(append(gzipMagic, 8))[:4])
