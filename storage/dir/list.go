package dir

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"coalmine/storage"
)

func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		if err := storage.Check(ctx, storage.CheckPrefix, prefix); err != nil {
			yield(storage.Info{}, err)
			return
		}
		dir := prefix[:strings.LastIndexByte(prefix, '/')+1]
		if dir != "" && storage.CheckName(strings.TrimSuffix(dir, "/")) != nil {
			return // no object name starts with this
		}
		s.walk(ctx, dir, prefix, yield)
	}
}

// walk yields the objects below dir, which is empty or ends with a slash, whose
// names start with prefix. It returns false to end the walk.
func (s *Store) walk(ctx context.Context, dir, prefix string, yield func(storage.Info, error) bool) bool {
	children, err := s.readDir(dir)
	if err != nil {
		yield(storage.Info{}, s.fail("list", dir, err))
		return false
	}
	for _, child := range children {
		name := dir + child
		if !strings.HasPrefix(name, prefix) && !strings.HasPrefix(prefix, name) {
			continue
		}
		if strings.HasSuffix(name, "/") {
			if !s.walk(ctx, name, prefix, yield) {
				return false
			}
			continue
		}
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		info, err := s.Head(ctx, name)
		if errors.Is(err, storage.ErrNotFound) {
			continue // deleted meanwhile
		}
		if !yield(info, err) || err != nil {
			return false
		}
	}
	return true
}

func (s *Store) Children(ctx context.Context, dir string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := storage.Check(ctx, storage.CheckDir, dir); err != nil {
			yield("", err)
			return
		}
		if dir != "" {
			dir += "/"
		}
		children, err := s.readDir(dir)
		if err != nil {
			yield("", s.fail("list", dir, err))
			return
		}
		for _, child := range children {
			holds, err := s.holdsObject(ctx, dir+child)
			if err == nil && !holds {
				continue // a directory is being made or removed
			}
			if !yield(child, err) || err != nil {
				return
			}
		}
	}
}

// holdsObject reports whether a child is an object or contains one.
func (s *Store) holdsObject(ctx context.Context, name string) (bool, error) {
	if !strings.HasSuffix(name, "/") {
		return true, ctx.Err()
	}
	for _, err := range s.List(ctx, name) {
		return true, err
	}
	return false, nil
}

// readDir returns the entries of a directory, subdirectories with a trailing
// slash, in the byte order of full names. A missing directory has none.
func (s *Store) readDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(s.path(dir))
	if errors.Is(absence(err), storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if name, ok := objectName(e); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// objectName returns the name of an entry, and false for entries outside the
// store: the temporary directory, and files of users or file managers.
func objectName(e fs.DirEntry) (string, bool) {
	if storage.CheckName(e.Name()) != nil {
		return "", false
	}
	if e.IsDir() {
		return e.Name() + "/", true
	}
	return e.Name(), true
}
