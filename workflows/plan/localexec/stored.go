package localexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// stored reads the stored outputs of the nodes from an archive.
type stored struct {
	archive *storage.Archive
	// lost has the nodes that count as not stored: they are to be executed in
	// spite of their commit, or are damaged.
	lost map[storage.Key]bool
	// commits has the commits of nodes with all their blobs available; nil for
	// other nodes.
	commits map[storage.Key]*storage.Commit
	// whole has the blobs with a verified digest. Of blobs read in parts, only the length is
	// verified.
	whole map[storage.Digest]bool
}

// UseStored makes the executor read committed outputs and sources from an
// archive, unless they are evicted.
func (e *Executor) UseStored(archive *storage.Archive) {
	e.stored = &stored{archive, map[storage.Key]bool{}, map[storage.Key]*storage.Commit{}, map[storage.Digest]bool{}}
}

// Execute runs a node, even if it is stored, and returns its commit, without
// provenance. It also runs the needs that are not stored.
func (e *Executor) Execute(ctx context.Context, r plan.Ref) (*storage.Commit, error) {
	if e.stored != nil {
		e.stored.lost[r.Key] = true
	}
	if err := e.Reach(ctx, r); err != nil {
		return nil, err
	}
	return e.runner.Node(r.Key).Commit(), nil
}

func (s *stored) has(ctx context.Context, key storage.Key) (bool, error) {
	if s.lost[key] {
		return false, nil
	}
	if c, known := s.commits[key]; known {
		return c != nil, nil
	}
	c, err := s.archive.Committed(ctx, key)
	there := false
	if err == nil {
		there, err = s.archive.Available(ctx, c)
	}
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		err = nil
	}
	if !there {
		c = nil
	}
	if err == nil {
		s.commits[key] = c
	}
	return there, err
}

// Commit implements tasks.Source.
func (s *stored) Commit(ctx context.Context, key storage.Key) (*storage.Commit, error) {
	if c := s.commits[key]; c != nil && !s.lost[key] {
		return c, nil
	}
	if there, err := s.has(ctx, key); err != nil {
		return nil, err
	} else if !there {
		return nil, &tasks.MissingError{Node: key, Err: storage.ErrNotFound}
	}
	return s.commits[key], nil
}

// Blob implements tasks.Source.
func (s *stored) Blob(ctx context.Context, key storage.Key, name string) ([]byte, error) {
	b, err := s.find(ctx, key, name)
	if err != nil {
		return nil, err
	}
	data, err := s.archive.ReadBlob(ctx, key, b)
	return data, missing(key, name, err)
}

// BlobRange implements tasks.Source.
func (s *stored) BlobRange(ctx context.Context, key storage.Key, name string, offset, length int64) ([]byte, error) {
	b, err := s.find(ctx, key, name)
	if err != nil {
		return nil, err
	}
	if !s.whole[b.Digest] {
		if _, err := s.archive.ReadBlob(ctx, key, b); err != nil {
			return nil, missing(key, name, err)
		}
		s.whole[b.Digest] = true
	}
	data, err := s.archive.ReadBlobRange(ctx, key, b, offset, length)
	return slices.Clone(data), missing(key, name, err) // the caller may write to the range
}

// Imported implements tasks.Source.
func (s *stored) Imported(ctx context.Context, digest storage.Digest) (io.ReadCloser, error) {
	return s.archive.OpenSource(ctx, digest)
}

func (s *stored) find(ctx context.Context, key storage.Key, name string) (storage.Blob, error) {
	c, err := s.Commit(ctx, key)
	if err != nil {
		return storage.Blob{}, err
	}
	b, ok := c.Blob(name)
	if !ok {
		return b, fmt.Errorf("node %s (%s@%d) has no blob %q", key.Short(), c.Kind, c.KindVersion, name)
	}
	return b, nil
}

// missing returns an error for a missing or damaged blob that asks for its node
// to run.
func missing(key storage.Key, name string, err error) error {
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		return &tasks.MissingError{Node: key, Blob: name, Err: err}
	}
	return err
}
