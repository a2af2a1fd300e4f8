package runs

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// Document is the text of a resolved experiment. A run's record is one small
// object, and the cells of a grid differ in little: a long document travels and
// is kept compressed.
type Document []byte

const (
	// longDocument is the size from which documents are compressed, in bytes.
	longDocument = 64 << 10
	// MaxDocument is the largest document, in bytes: what was compressed may
	// come from anybody.
	MaxDocument = 64 << 20
)

// gzipMagic begins what is compressed (RFC 1952, section 2.3.1), and no JSON.
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

func expand(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, MaxDocument+1))
	if err == nil && len(data) > MaxDocument {
		err = fmt.Errorf("it grows to more than %d bytes, which is the limit", MaxDocument)
	}
	return data, err
}
