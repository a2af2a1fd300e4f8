package population

import (
	"coalmine/storage"
	"coalmine/tasks"
	"context"
	"encoding/binary"
	"fmt"
	"io"
)

// AppendExample encodes an example: uvarint number of words, then uvarint ids.
func AppendExample[T int32 | uint32](dst []byte, words []T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(words)))
	for _, w := range words {
		dst = binary.AppendUvarint(dst, uint64(w))
	}
	return dst
}

// ReadExample decodes the example at r, at most a sequence, into dst, which it
// overwrites. Ids must be below the limit.
func ReadExample(r io.ByteReader, dst []int32, sequence, limit int) ([]int32, error) {
	n, err := ReadNumber(r)
	if err != nil {
		return nil, err
	}
	if n == 0 || n > uint64(sequence) {
		return nil, fmt.Errorf("example of %d words, expected 1 to %d: %w", n, sequence, storage.ErrCorrupt)
	}
	dst = dst[:0]
	for range n {
		w, err := ReadNumber(r)
		if err != nil {
			return nil, err
		}
		if w >= uint64(limit) {
			return nil, fmt.Errorf("token %d, expected one below %d: %w", w, limit, storage.ErrCorrupt)
		}
		dst = append(dst, int32(w))
	}
	return dst, nil
}

// ReadNumber reads a uvarint. An unexpected end of the data is storage.ErrCorrupt.
func ReadNumber(r io.ByteReader) (uint64, error) {
	n, err := binary.ReadUvarint(r)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("data ends within an example: %w", storage.ErrCorrupt)
	}
	return n, err
}

// PartWriter writes the stream of a part, user after user, and its index.
type PartWriter struct {
	stream   *StreamWriter
	sequence int
	open     Extent
	extents  []Extent
	record   []byte
}

func NewPartWriter(ctx context.Context, t *tasks.Task, part Part, sequence int) *PartWriter {
	return &PartWriter{stream: NewStreamWriter(ctx, t, part), sequence: sequence}
}

// Add adds an example, words without Begin and End, at least one, to the current user.
func (w *PartWriter) Add(words []int32) error {
	w.record = AppendExample(w.record[:0], words)
	w.open.Examples++
	w.open.Words += len(words)
	_, err := w.stream.Write(w.record)
	return err
}

// EndUser ends the current user. The next example belongs to the next user.
func (w *PartWriter) EndUser() {
	w.open.Length = w.stream.offset - w.open.Offset
	w.extents = append(w.extents, w.open)
	w.open = Extent{Offset: w.stream.offset}
}

// Close writes the last shard, and returns the index of the part.
func (w *PartWriter) Close() (*Index, error) {
	return indexOf(int64(w.stream.size), w.sequence, w.extents), w.stream.Close()
}
