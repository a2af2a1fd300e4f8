package clients

import (
	"os"

	"golang.org/x/sys/unix"
)

// leastShared is how much room shared memory must have, in bytes, to be used.
const leastShared = 256 << 20

// sharedMemory is a directory whose files are in memory, or else that of temporary files.
func sharedMemory() string {
	const path = "/dev/shm"
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil || s.Bavail*uint64(s.Bsize) < leastShared || unix.Access(path, unix.W_OK) != nil {
		return os.TempDir()
	}
	return path
}
