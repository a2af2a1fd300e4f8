//go:build unix

package dir

import (
	"errors"
	"os"
	"syscall"
)

// syncDir makes the names in a directory survive a power cut.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// removeDir removes an empty directory and nothing else.
func removeDir(path string) error { return syscall.Rmdir(path) }

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
