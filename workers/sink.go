package workers

import (
	"context"
	"fmt"
	"sync"

	"coalmine/internal/goroutines"

	"coalmine/storage"
	"coalmine/tasks"
)

// parallelPuts is the number of concurrent puts of a task's blobs. With a remote store,
// latency dominates the time of a put.
const parallelPuts = 4

// sink stores the outputs of one attempt, several at a time, while the task continues. A stop
// of the attempt does not interrupt it, because the task may just have ended.
type sink struct {
	archive *storage.Archive
	// source forgets the nodes with missing blobs.
	source *source
	key    storage.Key
	// attempt distinguishes the execution from others of the node.
	attempt string
	puts    *goroutines.Group
	ctx     context.Context // ends with the first failed put, or when given up
	giveUp  context.CancelFunc

	mu    sync.Mutex
	names map[string]bool
	blobs []storage.Blob
	// cached holds the bytes of blobs for the cache, with at most room bytes more: an import
	// may put more than fits in memory.
	cached map[storage.Digest][]byte
	room   int64
	// unfinished is the state of the node kept by this or an earlier execution.
	unfinished *storage.Unfinished
	// further reports that this execution made progress: it kept a new file that counts as progress.
	further bool
}

func newSink(ctx context.Context, source *source, key storage.Key, room int64) *sink {
	ctx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	puts, ctx := goroutines.WithContext(ctx)
	puts.SetLimit(parallelPuts)
	return &sink{
		archive: source.archive, source: source, key: key, puts: puts, ctx: ctx, giveUp: giveUp,
		names: map[string]bool{}, cached: map[storage.Digest][]byte{}, room: room,
	}
}

// Put implements tasks.Sink. It returns before a blob is stored as a separate object; wait
// returns the error of a failed put.
func (s *sink) Put(_ context.Context, name string, data []byte, durability storage.Durability) error {
	if err := s.begin(name); err != nil {
		return err
	}
	if len(data) <= storage.MaxInline {
		return s.put(name, data, durability) // travels in the commit, without a wait
	}
	s.puts.Go(func() error { return s.put(name, data, durability) })
	return nil
}

// Keep implements tasks.Keeper. Like Put, it returns early.
func (s *sink) Keep(_ context.Context, name string, from storage.Key, blob storage.Blob, durability storage.Durability) error {
	if err := s.begin(name); err != nil {
		return err
	}
	s.puts.Go(func() error {
		_, err := s.source.twice(from, blob, func() ([]byte, error) {
			kept, err := s.archive.KeepBlob(s.ctx, s.key, name, from, blob, durability)
			if err == nil {
				s.record(kept)
			}
			return nil, err
		})
		return err
	})
	return nil
}

// begin claims the name of an output, and refuses it after an earlier failure.
func (s *sink) begin(name string) error {
	if err := s.claim(name); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return fmt.Errorf("output %q: an earlier one was not stored: %w", name, context.Cause(s.ctx))
	}
	return nil
}

func (s *sink) put(name string, data []byte, durability storage.Durability) error {
	blob, err := s.archive.PutBlob(s.ctx, s.key, name, data, durability)
	if err == nil {
		s.record(blob)
		s.cache(blob, data)
	}
	return err
}

func (s *sink) claim(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[name] {
		return tasks.Permanent(fmt.Errorf("output %q is put twice by one task", name))
	}
	s.names[name] = true
	return nil
}

func (s *sink) record(blob storage.Blob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs = append(s.blobs, blob)
}

// cache keeps the bytes of a blob while there is room.
func (s *sink) cache(blob storage.Blob, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !blob.IsInline() && blob.Size <= s.room {
		s.room -= blob.Size
		s.cached[blob.Digest] = data
	}
}

// wait returns the blobs once all are stored, in any order: the archive sorts them. After an
// error of the task it cancels the puts in progress.
func (s *sink) wait(taskErr error) ([]storage.Blob, error) {
	if taskErr != nil {
		s.giveUp()
	}
	defer s.giveUp()
	err := s.puts.Wait()
	return s.blobs, err
}
