//go:build unix

package dir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openFile is os.OpenFile without the five system calls that only find that a
// file or a directory cannot be polled.
func openFile(path string, flags int, perm fs.FileMode) (*os.File, error) {
	for {
		fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC, uint32(perm))
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if err != syscall.EINTR {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// syncDir makes the names in a directory survive a power cut.
func syncDir(path string) error {
	d, err := openFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// removeFile removes a file. For a directory it returns an error.
func removeFile(path string) error {
	for {
		err := syscall.Unlink(path)
		if err == nil {
			return nil
		}
		if err != syscall.EINTR {
			return &fs.PathError{Op: "remove", Path: path, Err: err}
		}
	}
}

// removeDir removes an empty directory, but no file.
func removeDir(path string) error { return syscall.Rmdir(path) }

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
