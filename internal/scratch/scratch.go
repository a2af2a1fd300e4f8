// Package scratch makes temporary directories that go with their process, also if that is killed:
// the next process that makes one of the kind removes what is left.
//
//	d, err := scratch.Make(os.TempDir(), "coalmine-work-")
//	...
//	defer d.Remove()
//
// A directory belongs to the process that holds the lock in it. Systems without such locks keep what
// is left.
package scratch

import (
	"errors"
	"os"
	"path/filepath"
)

// LockName is the file of a directory that tells that it is in use.
const LockName = "lock"

// Directory is a temporary directory.
type Directory struct {
	// Path is where it is.
	Path string
	lock *os.File
}

// Make makes a directory whose name begins with prefix, and removes those whose processes have ended
// without.
func Make(parent, prefix string) (*Directory, error) {
	sweep(parent, prefix)
	path, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return nil, err
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &Directory{path, lock}, nil
}

// Remove removes the directory with all that is in it.
func (d *Directory) Remove() {
	os.RemoveAll(d.Path)
	_ = d.lock.Close() // nothing was written
}

// takeLock makes the lock of a directory. It gets its name when it is held, so that nobody
// takes a directory for one that is left.
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

// sweep removes the directories whose processes have ended without.
func sweep(parent, prefix string) {
	left, _ := filepath.Glob(filepath.Join(parent, prefix+"*", LockName)) // the pattern is right
	for _, path := range left {
		if abandoned(path) {
			os.RemoveAll(filepath.Dir(path))
		}
	}
}
