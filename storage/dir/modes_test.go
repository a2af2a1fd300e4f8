//go:build unix

package dir

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
)

// modesOf are the modes of a store's directories and of its files after it was used.
func modesOf(t *testing.T, root string) (dirs, files fs.FileMode) {
	t.Helper()
	s := must.Get(Open(root))(t)
	must.Do(t, s.Create(t.Context(), "commits/a/x", []byte("x")))
	must.Do(t, s.Put(t.Context(), "blobs/b/y", strings.NewReader("y"), storage.Recomputable))
	must.Do(t, s.Copy(t.Context(), "blobs/b/y", "blobs/b/z", storage.Durable))
	must.Do(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := e.Info()
		switch {
		case err != nil:
			return err
		case e.IsDir():
			dirs |= info.Mode().Perm()
		default:
			files |= info.Mode().Perm()
		}
		return nil
	}))
	return dirs, files
}

// TestStoreModesFollowDirectory does not run in parallel: the umask belongs to
// the process.
func TestStoreModesFollowDirectory(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	fresh := filepath.Join(t.TempDir(), "above", "store")
	if dirs, files := modesOf(t, fresh); dirs != 0o700 || files != 0o600 {
		t.Errorf("a new store: directories %o, files %o", dirs, files)
	}
	for _, made := range []string{fresh, filepath.Dir(fresh)} {
		if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", made, info.Mode(), err)
		}
	}
	for root, want := range map[fs.FileMode][2]fs.FileMode{
		0o700: {0o700, 0o600}, 0o755: {0o700, 0o600}, 0o750: {0o700, 0o600},
		0o770: {0o770, 0o660}, 0o775: {0o770, 0o660}, 0o777: {0o777, 0o666},
	} {
		there := t.TempDir()
		must.Do(t, os.Chmod(there, root))
		if dirs, files := modesOf(t, there); dirs != want[0] || files != want[1] {
			t.Errorf("in a directory of mode %o: directories %o, files %o, want %o", root, dirs, files, want)
		}
	}
}
