package dir

import (
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"time"

	"coalmine/storage"
)

// tempDir holds files that are being written. '~' is in no object name.
func (s *Store) tempDir() string { return filepath.Join(s.root, "~temporary") }

// leftoverAge is when a temporary file that nobody writes to any more is taken
// for that of a dead process.
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

// writeTemp writes a temporary file and returns its path. If it fails, no file
// is left.
func (s *Store) writeTemp(body io.Reader, durability storage.Durability) (string, error) {
	path := filepath.Join(s.tempDir(), rand.Text())
	f, err := openFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
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
