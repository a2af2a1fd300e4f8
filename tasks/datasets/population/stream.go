package population

import (
	"context"
	"fmt"
	"io"

	"coalmine/tasks"
)

// Part names a set of examples, and the stream that holds it.
type Part string

// The parts of a source. Only Train is balanced, carries canaries and trains.
const (
	Train      Part = "train"
	Test       Part = "test"
	Validation Part = "validation"

	// Unused are examples of the training part in no stream, because only a share of the part is
	// used.
	Unused Part = "unused"

	Corpus Part = "corpus" // every example, before the vocabulary
)

// Parts are the parts that Encode writes.
var Parts = [...]Part{Train, Test, Validation}

// shardBytes is the size of a shard. A stream is cut at this size even within an example, so that a
// position in the stream is one number; a reader joins the pieces.
const shardBytes = 32 << 20

// ShardBlob returns the name of shard i of a part.
func ShardBlob(part Part, i int) string { return fmt.Sprintf("%s-%05d", part, i) }

// IndexBlob returns the name of a part's index.
func IndexBlob(part Part) string { return string(part) + "-index" }

// StreamWriter cuts its input into shards.
type StreamWriter struct {
	ctx    context.Context
	task   *tasks.Task
	part   Part
	size   int // size of a shard
	buf    []byte
	shards int
	offset int64 // offset of the next byte in the stream
}

// NewStreamWriter returns a writer of the shards of a part.
func NewStreamWriter(ctx context.Context, t *tasks.Task, part Part) *StreamWriter {
	return &StreamWriter{ctx: ctx, task: t, part: part, size: shardBytes}
}

func (w *StreamWriter) Write(data []byte) (int, error) {
	w.offset += int64(len(data))
	for rest := data; len(rest) > 0; {
		n := min(len(rest), w.size-len(w.buf))
		w.buf = append(w.buf, rest[:n]...)
		rest = rest[n:]
		if len(w.buf) == w.size {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(data), nil
}

// Close writes the last shard. An empty stream has none.
func (w *StreamWriter) Close() error {
	if len(w.buf) == 0 {
		return nil
	}
	return w.flush()
}

func (w *StreamWriter) flush() error {
	data := w.buf
	w.buf = nil // the sink keeps data
	w.shards++
	return w.task.Put(w.ctx, ShardBlob(w.part, w.shards-1), data)
}

// stream reads the shards of one part from an input of a task.
type stream struct {
	task  *tasks.Task
	input string
	part  Part
	size  int64 // size of a shard
}

func streamOf(t *tasks.Task, input string, part Part, x *Index) stream {
	return stream{task: t, input: input, part: part, size: x.ShardBytes}
}

// read returns length bytes from offset. The caller must not modify them.
func (s stream) read(ctx context.Context, offset, length int64) ([]byte, error) {
	var out []byte
	for length > 0 {
		within := offset % s.size
		n := min(length, s.size-within)
		data, err := s.task.BlobRange(ctx, s.input, ShardBlob(s.part, int(offset/s.size)), within, n)
		if err != nil {
			return nil, err
		}
		if out == nil && n == length {
			return data, nil
		}
		out = append(out, data...)
		offset, length = offset+n, length-n
	}
	return out, nil
}

// streamWindow is the number of bytes that a scan reads at a time.
const streamWindow = 4 << 20

// Scanner reads a stream from front to back, a window at a time.
type Scanner struct {
	ctx    context.Context
	stream stream
	end    int64 // end of the stream
	next   int64 // offset of the byte after the window
	window []byte
	at     int
}

// Scan reads a part of an input up to the end of the index's last extent.
func Scan(ctx context.Context, t *tasks.Task, input string, part Part, x *Index) *Scanner {
	return &Scanner{ctx: ctx, stream: streamOf(t, input, part, x), end: x.end()}
}

func (s *Scanner) ReadByte() (byte, error) {
	if s.at == len(s.window) {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	b := s.window[s.at]
	s.at++
	return b, nil
}

func (s *Scanner) fill() error {
	if s.next >= s.end {
		return io.EOF
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	data, err := s.stream.read(s.ctx, s.next, min(streamWindow, s.end-s.next))
	if err != nil {
		return err
	}
	s.window, s.at = data, 0
	s.next += int64(len(data))
	return nil
}

// offset returns the position of the next byte in the stream.
func (s *Scanner) offset() int64 { return s.next - int64(len(s.window)-s.at) }

// skipTo advances to an offset at or after the current one.
func (s *Scanner) skipTo(offset int64) {
	if ahead := s.next - offset; ahead >= 0 {
		s.at = len(s.window) - int(ahead)
		return
	}
	s.window, s.at, s.next = nil, 0, offset
}
