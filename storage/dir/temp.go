package dir

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"time"

	"coalmine/storage"
)

// tempDir returns the directory of files being written. Object names contain no '~'.
func (s *Store) tempDir() string { return filepath.Join(s.root, "~temporary") }

// leftoverAge is the age at which an unchanged temporary file counts as left by a dead process.
const leftoverAge = 24 * time.Hour

func (s *Store) removeLeftovers() error {
	entries, err := os.ReadDir(s.tempDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < leftoverAge {
			continue
		}
		if err := absence(os.Remove(filepath.Join(s.tempDir(), e.Name()))); err != nil && err != storage.ErrNotFound {
			return err
		}
	}
	return nil
}

// copyTemp makes a temporary file of an object, like writeTemp: a hard link to the same
// file, because files never change. If linking fails, it copies the bytes.
func (s *Store) copyTemp(ctx context.Context, name string, durability storage.Durability) (string, error) {
	if temp, err := s.linkTemp(name, durability); err == nil {
		return temp, nil
	}
	f, _, err := s.open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return s.writeTemp(contextReader{ctx, f}, durability)
}

// linkTemp gives an object a second name. Both names count as new: young objects are not
// collected, and young temporary files are not leftovers.
func (s *Store) linkTemp(name string, durability storage.Durability) (string, error) {
	now, temp := time.Now(), filepath.Join(s.tempDir(), rand.Text())
	if err := os.Chtimes(s.path(name), now, now); err != nil {
		return "", err
	}
	if err := os.Link(s.path(name), temp); err != nil {
		return "", err
	}
	if durability == storage.Recomputable {
		return temp, nil
	}
	if err := syncFile(temp); err != nil {
		os.Remove(temp)
		return "", err
	}
	return temp, nil
}

// syncFile makes the content of a file survive a power cut.
func syncFile(path string) error {
	f, err := openFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// writeTemp writes a temporary file and returns its path. If it fails, it leaves no file.
func (s *Store) writeTemp(body io.Reader, durability storage.Durability) (string, error) {
	path := filepath.Join(s.tempDir(), rand.Text())
	f, err := openFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, s.fileMode)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, body)
	if err == nil && durability == storage.Durable {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(path)
		return "", err
	}
	return path, nil
}
