package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Make makes a directory, and those above it that are missing, such that their
// names survive a power cut. One that exists stays as it is.
func Make(path string, perm fs.FileMode) error { return makeAndSync(path, perm, syncDir) }

// makeRoot makes the directory of a store. That for temporary files comes last:
// where it is, the names above it have been synced.
func (s *Store) makeRoot() error {
	if info, err := os.Stat(s.tempDir()); err == nil && info.IsDir() {
		return nil
	}
	if err := Make(s.root, 0o777); err != nil {
		return err
	}
	return os.MkdirAll(s.tempDir(), 0o777)
}

// makeAndSync is Make, with what syncs the names in a directory. Each is synced
// before anything is made below it.
func makeAndSync(path string, perm fs.FileMode, sync func(dir string) error) error {
	for _, dir := range missing(path) {
		if err := os.Mkdir(dir, perm); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// A directory that this user may not read cannot be synced.
		if err := sync(filepath.Dir(dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("syncing the directory that %s is in: %w", dir, err)
		}
	}
	return nil
}

// missing are those of the directories above one that do not exist, the topmost
// first, and the directory itself.
func missing(dir string) []string {
	if above := filepath.Dir(dir); above != dir {
		if _, err := os.Stat(above); errors.Is(err, fs.ErrNotExist) {
			return append(missing(above), dir)
		}
	}
	return []string{dir}
}
