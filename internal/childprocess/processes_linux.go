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
	pages  int64 // resident
}

// below returns the descendants of a process. A process cannot leave them: a keeper adopts one that loses
// its parent.
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

// descends reports whether a process descends from root. Ids may be reused between reads, so the number of
// steps is bounded.
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

// residentBelow returns the memory of a process's descendants, in bytes.
func residentBelow(root int) int64 {
	var pages int64
	for _, p := range below(root) {
		pages += p.pages
	}
	return pages * int64(os.Getpagesize())
}

func processes() map[int]process {
	paths, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
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

// statOf returns the fields of proc_pid_stat(5) from the third on: the second, the command's name, may
// contain anything. It is empty for a process that has ended.
func statOf(pid int) []string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}
