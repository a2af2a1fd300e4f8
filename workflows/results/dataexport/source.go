package dataexport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// source supplies stored outputs to the readers of task packages. It keeps the latest blobs, because
// streams are read in small pieces. It is not safe for concurrent use.
type source struct {
	archive *storage.Archive
	plan    *plan.Plan
	commits map[storage.Key]*storage.Commit
	recent  []recentBlob // the newest last
}

// recentBlobs is the number of whole blobs to keep: a shard of each stream that a table reads at the same
// time, and one more.
const recentBlobs = 5

type recentBlob struct {
	node storage.Key
	name string
	data []byte
}

// task returns a task that reads the given inputs and does nothing else.
func (c *Cell) task(inputs ...tasks.Input) *tasks.Task {
	return tasks.NewTask(tasks.Spec{Kind: "data export", Inputs: inputs}, c.source(), nil, nil, nil)
}

func (c *Cell) source() *source {
	return &source{archive: c.Archive, plan: c.Plan, commits: map[storage.Key]*storage.Commit{}}
}

// Commit implements tasks.Source.
func (s *source) Commit(ctx context.Context, node storage.Key) (*storage.Commit, error) {
	if c := s.commits[node]; c != nil {
		return c, nil
	}
	c, err := s.archive.Committed(ctx, node)
	if err != nil {
		return nil, s.missing(node, err)
	}
	s.commits[node] = c
	return c, nil
}

// Blob implements tasks.Source.
func (s *source) Blob(ctx context.Context, node storage.Key, name string) ([]byte, error) {
	i := slices.IndexFunc(s.recent, func(b recentBlob) bool { return b.node == node && b.name == name })
	if i >= 0 {
		found := s.recent[i]
		s.recent = append(slices.Delete(s.recent, i, i+1), found)
		return found.data, nil
	}
	blob, err := s.find(ctx, node, name)
	if err != nil {
		return nil, err
	}
	data, err := s.archive.ReadBlob(ctx, node, blob)
	if err != nil {
		return nil, s.missing(node, err)
	}
	if len(s.recent) == recentBlobs {
		s.recent = slices.Delete(s.recent, 0, 1)
	}
	s.recent = append(s.recent, recentBlob{node, name, data})
	return data, nil
}

// find returns the description of a blob in the commit of its node.
func (s *source) find(ctx context.Context, node storage.Key, name string) (storage.Blob, error) {
	c, err := s.Commit(ctx, node)
	if err != nil {
		return storage.Blob{}, err
	}
	blob, ok := c.Blob(name)
	if !ok {
		return blob, fmt.Errorf("%s %s has no blob %q: %w", c.Kind, node.Short(), name, storage.ErrCorrupt)
	}
	return blob, nil
}

// window is the number of bytes of a blob that a reader of open holds.
const window = 1 << 20

// open returns a reader that reads a blob from front to back, a window at a time.
func (s *source) open(ctx context.Context, node storage.Key, name string) (io.Reader, error) {
	blob, err := s.find(ctx, node, name)
	if err != nil {
		return nil, err
	}
	part := func(p []byte, offset int64) (int, error) {
		data, err := s.archive.ReadBlobRange(ctx, node, blob, offset, int64(len(p)))
		return copy(p, data), s.missing(node, err)
	}
	return bufio.NewReaderSize(io.NewSectionReader(readerAt(part), 0, blob.Size), window), nil
}

// readerAt makes a function an io.ReaderAt.
type readerAt func(p []byte, offset int64) (int, error)

// ReadAt implements io.ReaderAt.
func (read readerAt) ReadAt(p []byte, offset int64) (int, error) { return read(p, offset) }

// BlobRange implements tasks.Source.
func (s *source) BlobRange(ctx context.Context, node storage.Key, name string, offset, length int64) ([]byte, error) {
	data, err := s.Blob(ctx, node, name)
	if err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 || offset+length > int64(len(data)) {
		return nil, fmt.Errorf("blob %q of node %s has %d bytes; requested %d from %d: %w", name, node.Short(), len(data), length, offset, storage.ErrCorrupt)
	}
	return data[offset : offset+length : offset+length], nil
}

// Imported implements tasks.Source. It returns an error, because no table reads the source itself.
func (s *source) Imported(_ context.Context, digest storage.Digest) (io.ReadCloser, error) {
	return nil, fmt.Errorf("source %s is not read again", digest.Short())
}

// missing adds the node of a missing output to the error, and explains how to recompute it.
func (s *source) missing(node storage.Key, err error) error {
	if n := s.plan.Nodes[node]; n != nil && errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("%q (%s, node %s) is not stored: %w; the run stores it when it gets there, and keeps it as long as the run exists", n.Label, n.Kind, node.Short(), storage.ErrNotFound)
	}
	return err
}
