package childprocess

import (
	"runtime"
	"strings"
)

// meaningful are the characters by which a line is more to a shell than a program and its
// arguments.
const meaningful = ";&|<>()$`\\\"'*?[]#~=%!{}\n"

// Shell are the arguments by which the system's shell runs a command line. A single program
// replaces the shell, so that it ends with this one.
func Shell(line string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/c", line}
	}
	if line = strings.TrimSpace(line); line != "" && !strings.ContainsAny(line, meaningful) {
		line = "exec " + line
	}
	return []string{"sh", "-c", line}
}
