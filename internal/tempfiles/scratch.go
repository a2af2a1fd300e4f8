// These files make temporary files and directories that vanish with their process, even if it is
// killed. A file has no name if the system allows that. A directory of a killed process is removed
// by the next process that makes one, or that calls Clean:
//
//	d, err := tempfiles.MakeDirectory("", "work-")
//	...
//	defer d.Remove()
//
// A directory belongs to the process that holds its lock. On systems without such locks it is left
// behind.

package tempfiles

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

const (
	// Prefix begins the names of all directories.
	Prefix = "coalmine-"
	// LockName is the file whose lock marks a directory as in use. No other directory may contain a
	// file of this name, such as a home that its user called coalmine-something.
	LockName = ".coalmine-scratch"
)

// Directory is a temporary directory.
type Directory struct {
	// Path is the path of the directory.
	Path string
	lock *os.File
}

// MakeDirectory makes a directory below parent, "" for the temporary directory, with a name that
// begins with Prefix and kind. Like Clean, it removes directories left by ended processes.
func MakeDirectory(parent, kind string) (*Directory, error) {
	parent = cmp.Or(parent, os.TempDir())
	Clean(parent)
	path, err := os.MkdirTemp(parent, Prefix+kind)
	if err != nil {
		return nil, err
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &Directory{path, lock}, nil
}

// Remove removes the directory and its content.
func (d *Directory) Remove() {
	os.RemoveAll(d.Path)
	_ = d.lock.Close() // nothing was written
}

// takeLock makes the lock of a directory. The file gets its name only when locked, so that no process
// treats the directory as abandoned.
func takeLock(path string) (*os.File, error) {
	temporary := filepath.Join(path, LockName+".new")
	lock, err := os.Create(temporary)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(lockFile(lock), os.Rename(temporary, filepath.Join(path, LockName))); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// Clean removes the directories below parent that ended processes have left.
func Clean(parent string) {
	entries, _ := os.ReadDir(parent) // an unreadable directory is not ours
	for _, e := range entries {
		path := filepath.Join(parent, e.Name())
		if e.IsDir() && strings.HasPrefix(e.Name(), Prefix) && abandoned(filepath.Join(path, LockName)) {
			os.RemoveAll(path)
		}
	}
}
