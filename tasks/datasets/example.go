package datasets

import (
	"coalmine/storage"
	"encoding/binary"
	"fmt"
	"io"
)

// appendExample encodes an example: uvarint number of words, then uvarint ids.
func appendExample[T int32 | uint32](dst []byte, words []T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(words)))
	for _, w := range words {
		dst = binary.AppendUvarint(dst, uint64(w))
	}
	return dst
}

// readExample decodes the example at r, at most a sequence, into dst, which it
// overwrites. Ids must be below the limit.
func readExample[T int32 | uint32](r io.ByteReader, dst []T, sequence, limit int) ([]T, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, damaged(err)
	}
	if n == 0 || n > uint64(sequence) {
		return nil, fmt.Errorf("example of %d words, expected 1 to %d: %w", n, sequence, storage.ErrCorrupt)
	}
	dst = dst[:0]
	for range n {
		w, err := binary.ReadUvarint(r)
		if err != nil {
			return nil, damaged(err)
		}
		if w >= uint64(limit) {
			return nil, fmt.Errorf("token %d, expected one below %d: %w", w, limit, storage.ErrCorrupt)
		}
		dst = append(dst, T(w))
	}
	return dst, nil
}

// damaged turns an unexpected end of the data into storage.ErrCorrupt. It returns other errors
// unchanged.
func damaged(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("data ends within an example: %w", storage.ErrCorrupt)
	}
	return err
}
