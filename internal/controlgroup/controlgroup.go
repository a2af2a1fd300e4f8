// Package controlgroup reads the memory use and limits of this process's control groups, of version 2
// on Linux. Other systems have none.
package controlgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory is the memory of a control group, in bytes. The kernel kills processes of a group that exceeds
// its limit.
type Memory struct {
	// Used is the memory that the kernel cannot reclaim: it excludes the cache of files.
	Used int64
	// Limit is 0 if there is none.
	Limit int64
}

// Own returns the memory of the group with the lowest limit, from that of this process up to the root.
func Own() Memory { return read("/sys/fs/cgroup", "/proc/self/cgroup") }

func read(mount, membership string) (least Memory) {
	data, err := os.ReadFile(membership)
	if err != nil {
		return Memory{} // no Linux, or no control groups
	}
	tightest := ""
	for group := unifiedGroup(string(data)); ; group = filepath.Dir(group) {
		directory := filepath.Join(mount, group)
		if n := memoryMax(directory); n > 0 && (least.Limit == 0 || n < least.Limit) {
			least.Limit, tightest = n, directory
		}
		if group == "/" {
			break
		}
	}
	if least.Limit > 0 {
		least.Used = unreclaimable(tightest)
	}
	return least
}

// unifiedGroup returns the path behind "0::" in /proc/self/cgroup.
func unifiedGroup(membership string) string {
	for line := range strings.Lines(membership) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return filepath.Join("/", strings.TrimSpace(path))
		}
	}
	return "/"
}

// memoryMax reads a limit; 0 stands for a file that is not there or says "max".
func memoryMax(group string) int64 {
	data, err := os.ReadFile(filepath.Join(group, "memory.max"))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// unreclaimable adds up the memory of processes and of files in memory.
func unreclaimable(group string) (bytes int64) {
	data, err := os.ReadFile(filepath.Join(group, "memory.stat"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "anon", "shmem", "slab_unreclaimable":
			n, _ := strconv.ParseInt(value, 10, 64) // the kernel writes numbers
			bytes += n
		}
	}
	return bytes
}
