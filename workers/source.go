package workers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"coalmine/storage"
	"coalmine/tasks"
)

// source implements tasks.Source with the archive, for all slots of a worker. Commits
// and blobs are immutable, so they may be cached.
type source struct {
	archive *storage.Archive
	blobs   *blobCache
	commits *cache[storage.Key, *storage.Commit]
}

// commitOverhead is a generous estimate of a commit's memory that commitSize does not
// count, in bytes.
const commitOverhead = 2 << 10

func newSource(archive *storage.Archive, memory *budget) *source {
	return &source{archive: archive, blobs: newBlobCache(memory), commits: newCache[storage.Key, *storage.Commit](memory)}
}

func (s *source) Commit(ctx context.Context, node storage.Key) (*storage.Commit, error) {
	return s.commits.get(ctx, node, func() (*storage.Commit, int64, error) {
		c, err := s.archive.Committed(ctx, node)
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
			// A torn record also causes work: the leader removes it.
			return nil, 0, &tasks.MissingError{Node: node, Err: err}
		}
		if err != nil {
			return nil, 0, err
		}
		return c, commitSize(c), nil
	})
}

func commitSize(c *storage.Commit) int64 {
	size := int64(commitOverhead + len(c.Metrics))
	for _, b := range c.Blobs {
		size += int64(len(b.Inline) + len(b.Blocks))
	}
	return size
}

func (s *source) Blob(ctx context.Context, node storage.Key, name string) ([]byte, error) {
	b, err := s.find(ctx, node, name)
	if err != nil {
		return nil, err
	}
	if b.IsInline() {
		return s.archive.ReadBlob(ctx, node, b)
	}
	return s.blobs.whole(ctx, b.Digest, func() ([]byte, error) { return s.fetch(ctx, node, b) })
}

// BlobRange implements tasks.Source. An uncached part comes directly from the store. On
// the second request for a blob, the whole blob is fetched, checked, and cached on disk.
func (s *source) BlobRange(ctx context.Context, node storage.Key, name string, offset, length int64) ([]byte, error) {
	b, err := s.find(ctx, node, name)
	if err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 || length > b.Size || offset > b.Size-length {
		return nil, tasks.Permanent(fmt.Errorf("blob %q of node %s has %d bytes; requested from %d to %d", name, node.Short(), b.Size, offset, offset+length))
	}
	if b.IsInline() {
		return bytes.Clone(b.Inline[offset : offset+length]), nil // the caller may write to a part
	}
	part, ok, err := s.blobs.part(ctx, b, offset, length, func() ([]byte, error) { return s.fetch(ctx, node, b) })
	if ok || err != nil {
		return part, err
	}
	return s.twice(node, b, func() ([]byte, error) { return s.archive.ReadBlobRange(ctx, node, b, offset, length) })
}

func (s *source) Imported(ctx context.Context, digest storage.Digest) (io.ReadCloser, error) {
	r, err := s.archive.OpenSource(ctx, digest)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, tasks.Permanent(err)
	}
	return r, err
}

// remember caches the commit of an attempt: the next task of the chain often runs on the
// same worker.
func (s *source) remember(c *storage.Commit, made *sink) {
	s.commits.add(c.Key, c, commitSize(c))
	for _, b := range c.Blobs {
		if data, ok := made.cached[b.Digest]; ok {
			s.blobs.memory.add(b.Digest, data, b.Size)
		}
	}
}

func (s *source) find(ctx context.Context, node storage.Key, name string) (storage.Blob, error) {
	c, err := s.Commit(ctx, node)
	if err != nil {
		return storage.Blob{}, err
	}
	b, ok := c.Blob(name)
	if !ok {
		return storage.Blob{}, tasks.Permanent(fmt.Errorf("node %s (%s@%d) has no blob %q", node.Short(), c.Kind, c.KindVersion, name))
	}
	return b, nil
}

func (s *source) fetch(ctx context.Context, node storage.Key, b storage.Blob) ([]byte, error) {
	return s.twice(node, b, func() ([]byte, error) { return s.archive.ReadBlob(ctx, node, b) })
}

// twice reads a blob or a part of it, and reads again if the bytes are damaged, perhaps in transit.
func (s *source) twice(node storage.Key, b storage.Blob, read func() ([]byte, error)) ([]byte, error) {
	data, err := read()
	if errors.Is(err, storage.ErrCorrupt) {
		data, err = read()
	}
	if err != nil {
		return nil, s.missing(node, b, err)
	}
	return data, nil
}

// missing converts the error of a missing or damaged blob to work for the coordinator.
// It forgets the commit, because the node may be run again.
func (s *source) missing(node storage.Key, b storage.Blob, err error) error {
	if !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrCorrupt) {
		return err
	}
	s.commits.remove(node)
	return &tasks.MissingError{Node: node, Blob: b.Name, Err: err}
}
