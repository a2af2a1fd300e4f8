// Package dir stores objects as files below a directory. It is durable: an object is written to
// a temporary file, synced, moved to its name in one step, and the directories above it are
// synced. A name is claimed (create-if-absent) with a hard link, or with a rename that does not
// replace on file systems without hard links; Open refuses a file system without either.
//
// Several processes, on one machine or over NFS, can share a directory.
//
// New files and directories are private to their owner (modes 0600 and 0700), unless the mode of
// the store's directory lets the group or everyone write: they then get the same access, limited
// by the umask. Existing files keep their modes.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"coalmine/storage"
)

// Store is a storage.Store in a directory.
type Store struct {
	root  string // absolute
	claim claimFunc
	// dirMode and fileMode are the modes of new directories and files, before the umask.
	dirMode, fileMode fs.FileMode
	// rooted holds the directories in the root whose names there are known to survive a power cut.
	rooted sync.Map
}

// Open opens the store in a directory and makes the directory if it is missing. It tests the
// operations that the contract needs: if the file system does not support them, the error wraps
// storage.ErrUnsuitable and names the file system.
func Open(path string) (*Store, error) {
	root, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", storage.ErrUnsuitable, path, err)
	}
	s := &Store{root: root}
	if err := s.makeRoot(); err != nil {
		return nil, s.unsuitable(err)
	}
	if err := s.removeLeftovers(); err != nil {
		return nil, s.unsuitable(err)
	}
	if s.claim, err = s.probe(); err != nil {
		return nil, s.unsuitable(err)
	}
	return s, nil
}

// unsuitable explains why the directory is refused. A full disk does not make it unsuitable.
func (s *Store) unsuitable(err error) error {
	if isFull(err) {
		return fmt.Errorf("%w: make room in %s: %w", storage.ErrFull, s.root, err)
	}
	return fmt.Errorf("%w: %s (%s): %w; choose a directory that this user can write to on a local disk",
		storage.ErrUnsuitable, s.root, fileSystem(s.root), err)
}

func (s *Store) String() string { return "file://" + urlEscapes.Replace(filepath.ToSlash(s.root)) }

// urlEscapes escapes the characters that have a meaning in a URL.
var urlEscapes = strings.NewReplacer("%", "%25", "#", "%23", "?", "%3F")

func (s *Store) path(name string) string {
	return filepath.Join(s.root, filepath.FromSlash(name))
}

func (s *Store) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	_, refused := errors.AsType[syscall.Errno](err)
	err = withoutPath(err)
	switch {
	case isFull(err):
		err = fmt.Errorf("%w: %w", storage.ErrFull, err)
	case refused && !errors.Is(err, storage.ErrExists):
		// Invalid names and absence have their own errors: all others come from the file system,
		// such as read-only, a lost mount, a bad disk.
		err = fmt.Errorf("%w: %w", storage.ErrAway, err)
	}
	return &storage.ObjectError{Op: op, Name: name, Store: s.String(), Err: err}
}

// withoutPath removes the path from an error of the file system, because the
// caller names the object.
func withoutPath(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return fmt.Errorf("%s: %w", e.Op, e.Err)
	case *os.LinkError:
		return fmt.Errorf("%s: %w", e.Op, e.Err)
	}
	return err
}

func (s *Store) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := storage.Check(ctx, storage.CheckName, name); err != nil {
		return nil, err
	}
	f, info, err := s.open(name)
	if err != nil {
		return nil, s.fail("get", name, err)
	}
	if offset < 0 || offset > info.Size() {
		f.Close()
		return nil, s.fail("get", name, fmt.Errorf("offset %d is not inside its %d bytes", offset, info.Size()))
	}
	if length < 0 {
		length = info.Size() - offset
	}
	return section{io.NewSectionReader(f, offset, length), f}, nil
}

// section is a part of a file. Closing it closes the file.
type section struct {
	io.Reader
	io.Closer
}

// open opens a file; a directory is not an object.
func (s *Store) open(name string) (*os.File, fs.FileInfo, error) {
	f, err := openFile(s.path(name), os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, absence(err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = storage.ErrNotFound
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func (s *Store) Head(ctx context.Context, name string) (storage.Info, error) {
	if err := storage.Check(ctx, storage.CheckName, name); err != nil {
		return storage.Info{}, err
	}
	info, err := os.Stat(s.path(name))
	if err != nil {
		return storage.Info{}, s.fail("head", name, absence(err))
	}
	if info.IsDir() {
		return storage.Info{}, s.fail("head", name, storage.ErrNotFound)
	}
	return storage.Info{Name: name, Size: info.Size(), Modified: info.ModTime()}, nil
}

// Delete implements storage.Store. It also removes directories that become
// empty, except the topmost ones.
func (s *Store) Delete(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := storage.Check(ctx, storage.CheckName, name); err != nil {
			return err
		}
		if err := s.remove(name); err != nil {
			return s.fail("delete", name, err)
		}
	}
	return nil
}

func (s *Store) remove(name string) error {
	if err := absence(removeFile(s.path(name))); err != nil && err != storage.ErrNotFound {
		if info, statErr := os.Lstat(s.path(name)); statErr == nil && info.IsDir() {
			return nil // no object
		}
		return err
	}
	for dir := filepath.Dir(name); strings.ContainsRune(dir, filepath.Separator); dir = filepath.Dir(dir) {
		if removeDir(s.path(dir)) != nil {
			break // not empty, no directory, or already gone
		}
	}
	return nil
}

// absence converts the errors for a missing file to storage.ErrNotFound, including the one for a
// file in place of a directory.
func absence(err error) error {
	if errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return storage.ErrNotFound
	}
	return err
}
