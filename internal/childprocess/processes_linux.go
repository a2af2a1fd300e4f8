package childprocess

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// process is the state of a process when polled.
type process struct {
	parent int
	pages  int64 // that are resident
}

// below are the processes that have a process among those above them. A process cannot leave them: one
// that loses its parent gets the keeper for it.
func below(root int) map[int]process {
	all := processes()
	found := map[int]process{}
	for pid := range all {
		if descends(all, pid, root) {
			found[pid] = all[pid]
		}
	}
	return found
}

// descends reports whether a process is below another one. Ids may be used again between two looks, so
// that the way up is bounded.
func descends(all map[int]process, pid, root int) bool {
	for range len(all) {
		above, there := all[pid]
		if !there || above.parent == root {
			return there
		}
		pid = above.parent
	}
	return false
}

// residentBelow is the memory of the processes below one, in bytes.
func residentBelow(root int) int64 {
	var pages int64
	for _, p := range below(root) {
		pages += p.pages
	}
	return pages * int64(os.Getpagesize())
}

// processes are all that this one can see.
func processes() map[int]process {
	paths, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	all := make(map[int]process, len(paths))
	for _, path := range paths {
		pid, _ := strconv.Atoi(filepath.Base(path)) // names of processes are numbers
		const parent, resident = 4 - 3, 24 - 3
		if fields := statOf(pid); len(fields) > resident {
			above, _ := strconv.Atoi(fields[parent]) // the kernel writes numbers
			pages, _ := strconv.ParseInt(fields[resident], 10, 64)
			all[pid] = process{above, pages}
		}
	}
	return all
}

// statOf are the fields of proc_pid_stat(5) of a process, from the third on: the second is the command's name,
// which may hold anything. One that has ended has none.
func statOf(pid int) []string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}
