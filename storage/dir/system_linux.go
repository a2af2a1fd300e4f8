package dir

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func renameNoReplace(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

// fileSystem names the file system that holds path, for messages: "ext4 at /".
func fileSystem(path string) string {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "file system unknown"
	}
	defer f.Close()
	best, kind := "", "file system unknown"
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 36 35 98:0 /root /mount/point options ... - type device options
		mount, rest, ok := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mount)
		if !ok || len(fields) < 5 {
			continue
		}
		point := fields[4]
		if len(point) >= len(best) && strings.HasPrefix(path+"/", strings.TrimSuffix(point, "/")+"/") {
			best = point
			kind, _, _ = strings.Cut(rest, " ")
		}
	}
	if best == "" {
		return kind
	}
	return fmt.Sprintf("%s at %s", kind, best)
}
