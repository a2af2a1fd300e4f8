package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Unmarshal decodes a file. The tensors share data's memory if the machine is little-endian and the
// values are aligned (always, if Marshal wrote the file and data is the start of an allocation): do
// not write to one while the other is in use. Bytes that are not a valid file, including extra,
// missing or overlapping data, give an error that wraps ErrFormat.
func Unmarshal(data []byte) (File, error) {
	p, err := PartsOf(data)
	if err != nil {
		return File{}, err
	}
	file := File{Metadata: p.Metadata}
	for _, e := range p.entries {
		if err := e.checkOwn(); err != nil {
			return File{}, err
		}
		file.Tensors = append(file.Tensors, e.tensor(data[p.start:]))
	}
	return file, nil
}

func formatError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// lengthBytes is the number of bytes before the header.
const lengthBytes = 8

// headerSize returns the length of the header of a file of file bytes that begins with start.
func headerSize(start []byte, file int64) (int64, error) {
	if file < lengthBytes {
		return 0, formatError("%d bytes are too few", file)
	}
	size := binary.LittleEndian.Uint64(start)
	if size > MaxHeader {
		return 0, formatError("its header claims %d bytes, at most %d are allowed", size, MaxHeader)
	}
	if follow := uint64(file - lengthBytes); size > follow {
		return 0, formatError("its header claims %d bytes, only %d follow", size, follow)
	}
	return int64(size), nil
}

type namedEntry struct {
	name string
	entry
}

// parseHeader parses the JSON object token by token, because the usual decoder
// silently takes the last of several equal names.
func parseHeader(header []byte) ([]namedEntry, map[string]string, error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, formatError("its header does not start with '{'")
	}
	d := json.NewDecoder(bytes.NewReader(header))
	d.DisallowUnknownFields()
	var entries []namedEntry
	var metadata map[string]string
	err := eachField(d, func(name string) error {
		if name == metadataKey {
			metadata = make(map[string]string)
			return parseMetadata(d, metadata)
		}
		e := namedEntry{name: name}
		if err := d.Decode(&e.entry); err != nil {
			return formatError("tensor %.200q: %v", name, err)
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if rest := bytes.Trim(header[d.InputOffset():], " "); len(rest) > 0 {
		return nil, nil, formatError("%d bytes follow its header's JSON", len(rest))
	}
	return entries, metadata, nil
}

func parseMetadata(d *json.Decoder, into map[string]string) error {
	return eachField(d, func(key string) error {
		token, err := d.Token()
		if err != nil {
			return formatError("metadata %.200q: %v", key, err)
		}
		value, ok := token.(string)
		if !ok {
			return formatError("metadata %.200q is not a text", key)
		}
		into[key] = value
		return nil
	})
}

// eachField calls do for every field of the next object; do reads the value. A
// duplicate name is an error.
func eachField(d *json.Decoder, do func(name string) error) error {
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return formatError("its header has %v (%v), want an object", token, err)
	}
	seen := make(map[string]bool)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return formatError("its header: %v", err)
		}
		name := token.(string) // the decoder allows nothing else here
		if seen[name] {
			return formatError("its header has %.200q twice", name)
		}
		seen[name] = true
		if err := do(name); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil && err != io.EOF {
		return formatError("its header: %v", err)
	} else if err == io.EOF {
		return formatError("its header ends too early")
	}
	return nil
}

// checkOwn returns an error for an element type that this package does not write.
func (e namedEntry) checkOwn() error {
	if e.DType != f32 && e.DType != i64 {
		return formatError("tensor %.200q has elements of type %.20q: only F32 and I64 are known here", e.name, e.DType)
	}
	return nil
}

// checkEntries sorts the entries by the position of their data, which must fill size
// bytes without gaps.
func checkEntries(entries []namedEntry, size int64) error {
	slices.SortStableFunc(entries, func(x, y namedEntry) int {
		return cmp.Or(cmp.Compare(x.Offsets[0], y.Offsets[0]), cmp.Compare(x.Offsets[1], y.Offsets[1]))
	})
	var end int64
	for _, e := range entries {
		if err := e.check(end, size); err != nil {
			return err
		}
		end = e.Offsets[1]
	}
	if end != size {
		return formatError("%d bytes of data belong to no tensor", size-end)
	}
	return nil
}

// check compares an entry with the end of the previous tensor and with the size of the data.
func (e namedEntry) check(start, size int64) error {
	if e.DType.size() == 0 {
		return formatError("tensor %.200q has elements of the unknown type %.20q", e.name, e.DType)
	}
	want, err := dataSize(e.Shape, e.DType)
	if err != nil {
		return formatError("tensor %.200q: %v", e.name, err)
	}
	from, to := e.Offsets[0], e.Offsets[1]
	if from < 0 || to < from || to > size {
		return formatError("tensor %.200q claims bytes %d to %d of %d", e.name, from, to, size)
	}
	if to-from != want {
		return formatError("tensor %.200q has %d bytes, its shape %v needs %d", e.name, to-from, e.Shape, want)
	}
	if from != start {
		return formatError("tensor %.200q starts at byte %d, the one before ends at %d", e.name, from, start)
	}
	return nil
}

func (e namedEntry) tensor(body []byte) Tensor {
	t := Tensor{Name: e.name, Shape: e.Shape}
	data := body[e.Offsets[0]:e.Offsets[1]:e.Offsets[1]]
	if e.DType == f32 {
		t.Float32 = values[float32](data)
	} else {
		t.Int64 = values[int64](data)
	}
	return t
}
