//go:build unix

package tempfiles

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks an open file for this process, or fails. The lock ends with the process.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// abandoned reports whether the process that locked a file is gone.
func abandoned(path string) bool {
	lock, err := os.Open(path)
	if err != nil {
		return false // its process has just ended, or it belongs to another user
	}
	defer lock.Close()
	return lockFile(lock) == nil
}
