package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"coalmine/storage"
)

func (s *Store) Put(ctx context.Context, name string, body io.ReadSeeker, durability storage.Durability) error {
	if err := storage.Check(ctx, storage.CheckName, name); err != nil {
		return err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return s.fail("put", name, err)
	}
	temp, err := s.writeTemp(contextReader{ctx, body}, durability)
	if err != nil {
		return s.fail("put", name, err)
	}
	if err := s.place(name, durability, func(path string) error { return os.Rename(temp, path) }); err != nil {
		os.Remove(temp)
		return s.fail("put", name, err)
	}
	return nil
}

func (s *Store) Copy(ctx context.Context, from, to string, durability storage.Durability) error {
	if err := storage.Check(ctx, storage.CheckName, from, to); err != nil {
		return err
	}
	temp, err := s.copyTemp(ctx, from, durability)
	if err != nil {
		return s.fail("copy", from, err)
	}
	defer os.Remove(temp) // renaming one link of a file to the other keeps both
	return s.fail("copy", to, s.place(to, durability, func(path string) error { return os.Rename(temp, path) }))
}

func (s *Store) Create(ctx context.Context, name string, data []byte) error {
	if err := storage.Check(ctx, storage.CheckName, name); err != nil {
		return err
	}
	if len(data) > storage.MaxCreate {
		return s.fail("create", name, fmt.Errorf("%d bytes, at most %d can be created at once", len(data), storage.MaxCreate))
	}
	temp, err := s.writeTemp(bytes.NewReader(data), storage.Durable)
	if err != nil {
		return s.fail("create", name, err)
	}
	defer os.Remove(temp)
	return s.fail("create", name, s.place(name, storage.Durable, func(path string) error { return s.claim(temp, path) }))
}

// placeTries limits how often place makes directories that a concurrent Delete
// removes again while they are empty.
const placeTries = 1000

// place moves a finished file to its name, makes the directories above it, and syncs them if the
// object is durable. If the name was given but not synced, the outcome is unknown.
func (s *Store) place(name string, durability storage.Durability, move func(path string) error) error {
	path := s.path(name)
	var err error
	for range placeTries {
		if err = move(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		// This can fail for the same reason; the next move reports it.
		if err := os.MkdirAll(filepath.Dir(path), s.dirMode); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err != nil || durability == storage.Recomputable {
		return err
	}
	if err := s.syncDirs(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%w: %w", storage.ErrUnknown, err)
	}
	return nil
}

// syncDirs syncs a directory and its parents up to the root: any of them may be
// new, made for this object or by a writer that did not sync. The root is
// synced once for each of its directories, because Delete never removes those.
func (s *Store) syncDirs(path string) error {
	top := ""
	for len(path) > len(s.root) {
		if err := syncDir(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		top, path = path, filepath.Dir(path)
	}
	if _, synced := s.rooted.Load(top); synced {
		return nil
	}
	err := syncDir(s.root)
	if err == nil && top != "" {
		s.rooted.Store(top, nil)
	}
	return err
}

// contextReader stops reading when the context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
