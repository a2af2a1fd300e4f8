package safetensors

import (
	"bytes"
	"io"
	"math"
)

// Read reads a file of at most limit bytes, for Unmarshal. It does not trust
// the file: the header must be valid before any data is read, and memory grows
// with the bytes read, not with the claimed size. Bytes that are not such a
// file, including missing or extra data, give an error that wraps ErrFormat.
func Read(r io.Reader, limit int64) ([]byte, error) {
	var file bytes.Buffer
	if err := appendUpTo(&file, r, lengthBytes); err != nil {
		return nil, err
	}
	if file.Len() == lengthBytes {
		claimed, err := headerSize(file.Bytes(), math.MaxInt64)
		if err != nil {
			return nil, err
		}
		if err := appendUpTo(&file, r, claimed); err != nil {
			return nil, err
		}
	}
	start := file.Len()
	if _, err := headerSize(file.Bytes(), int64(start)); err != nil {
		return nil, err
	}
	size, err := claimedData(file.Bytes()[lengthBytes:], limit-int64(start))
	if err != nil {
		return nil, err
	}
	if err := appendUpTo(&file, r, size+1); err != nil {
		return nil, err
	}
	switch have := int64(file.Len() - start); {
	case have < size:
		return nil, formatError("it is truncated: its tensors claim %d bytes, only %d are there", size, have)
	case have > size:
		return nil, formatError("it goes on after the %d bytes of its tensors", size)
	}
	return file.Bytes(), nil
}

// appendUpTo appends the next n bytes, or fewer at the end of r.
func appendUpTo(file *bytes.Buffer, r io.Reader, n int64) error {
	_, err := io.Copy(file, io.LimitReader(r, n))
	return err
}

// claimedData returns the number of bytes of data that a valid header describes, at most limit.
func claimedData(header []byte, limit int64) (int64, error) {
	entries, _, err := parseHeader(header)
	if err != nil {
		return 0, err
	}
	var size int64
	for _, e := range entries {
		if err := e.checkOwn(); err != nil {
			return 0, err
		}
		size = max(size, e.Offsets[1])
	}
	if size > limit {
		return 0, formatError("its tensors claim %d bytes, at most %d are allowed", size, limit)
	}
	return size, checkEntries(entries, size)
}
