package clients

import (
	"os"

	"golang.org/x/sys/unix"
)

// minShared is the free space that shared memory must have to be used, in bytes.
const minShared = 256 << 20

// sharedMemory returns a directory in memory, or otherwise the directory of temporary files.
func sharedMemory() string {
	const path = "/dev/shm"
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil || s.Bavail*uint64(s.Bsize) < minShared || unix.Access(path, unix.W_OK) != nil {
		return os.TempDir()
	}
	return path
}
