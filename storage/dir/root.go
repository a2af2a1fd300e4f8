package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Make makes a directory and its missing parents so that their names survive a
// power cut. It does not change an existing one.
func Make(path string, perm fs.FileMode) error { return makeAndSync(path, perm, syncDir) }

// makeRoot makes the directory of a store. It makes the directory for temporary
// files last: if that exists, the names above it have been synced.
func (s *Store) makeRoot() error {
	s.setModes(private)
	if info, err := os.Stat(s.root); err == nil {
		s.setModes(info.Mode())
	}
	if info, err := os.Stat(s.tempDir()); err == nil && info.IsDir() {
		return nil
	}
	if err := Make(s.root, s.dirMode); err != nil {
		return err
	}
	return os.MkdirAll(s.tempDir(), s.dirMode)
}

// private is the mode of a directory private to its owner.
const private fs.FileMode = 0o700

// setModes makes new files accessible to all who may write to the root.
func (s *Store) setModes(root fs.FileMode) {
	s.dirMode = private
	if root&0o020 != 0 {
		s.dirMode |= 0o070
	}
	if root&0o002 != 0 {
		s.dirMode |= 0o007
	}
	s.fileMode = s.dirMode & 0o666
}

// makeAndSync is Make with a function that syncs the names in a directory. It
// syncs each directory before making anything below it.
func makeAndSync(path string, perm fs.FileMode, sync func(dir string) error) error {
	for _, dir := range missing(path) {
		if err := os.Mkdir(dir, perm); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// A directory that is unreadable to this user cannot be synced.
		if err := sync(filepath.Dir(dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("syncing the directory that %s is in: %w", dir, err)
		}
	}
	return nil
}

// missing returns the missing parents of a directory, the topmost first, and the directory itself.
func missing(dir string) []string {
	if above := filepath.Dir(dir); above != dir {
		if _, err := os.Stat(above); errors.Is(err, fs.ErrNotExist) {
			return append(missing(above), dir)
		}
	}
	return []string{dir}
}
