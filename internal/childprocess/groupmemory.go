package childprocess

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// GroupMemory is the memory of a control group of version 2 on Linux, in bytes. The kernel kills processes
// of a group that exceeds its limit.
type GroupMemory struct {
	// Used is the memory that the kernel cannot reclaim: it excludes the file cache.
	Used int64
	// Limit is 0 if there is none.
	Limit int64
}

// OwnGroup returns the memory of the group with the lowest limit among this process's group and its ancestors.
func OwnGroup() GroupMemory { return groupMemory(groupRoot, ownGroups) }

// groupRoot is the folder of control groups, and ownGroups the file that names those of this process.
const (
	groupRoot = "/sys/fs/cgroup"
	ownGroups = "/proc/self/cgroup"
)

func groupMemory(mount, membership string) (least GroupMemory) {
	data, err := os.ReadFile(membership)
	if err != nil {
		return GroupMemory{} // no Linux, or no control groups
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

// memoryMax reads a limit; 0 if the file is missing or holds "max".
func memoryMax(group string) int64 {
	data, _ := os.ReadFile(filepath.Join(group, "memory.max"))
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// unreclaimable adds up the memory of processes and of files in memory.
func unreclaimable(group string) int64 {
	stat := groupFigures(group, "memory.stat")
	return stat["anon"] + stat["shmem"] + stat["slab_unreclaimable"]
}

// groupFigures reads a file of lines, each with a name and a number.
func groupFigures(group, file string) map[string]int64 {
	data, _ := os.ReadFile(filepath.Join(group, file)) // if it fails, all figures are 0
	figures := map[string]int64{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		figures[name], _ = strconv.ParseInt(value, 10, 64) // the kernel writes numbers
	}
	return figures
}
