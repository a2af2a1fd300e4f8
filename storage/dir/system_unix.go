//go:build unix

package dir

import (
	"errors"
	"io/fs"
	"syscall"
)

// syncDir makes the names in a directory survive a power cut. It does without
// os.File, which would ask the system besides whether it can wait for a directory.
func syncDir(path string) error {
	d, err := uninterrupted(func() (int, error) {
		return syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(d)
	if _, err := uninterrupted(func() (int, error) { return 0, syscall.Fsync(d) }); err != nil {
		return &fs.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}

// uninterrupted calls again when a signal has cut the call short.
func uninterrupted(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != syscall.EINTR {
			return n, err
		}
	}
}

// removeDir removes an empty directory and nothing else.
func removeDir(path string) error { return syscall.Rmdir(path) }

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
