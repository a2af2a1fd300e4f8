package childprocess

import (
	"runtime"
	"strings"
)

// meaningful are the characters that have a meaning to a shell in a line.
const meaningful = ";&|<>()$`\\\"'*?[]#~=%!{}\n"

// Shell returns the arguments with which the system's shell runs a command line. A single
// program replaces the shell, so that both end together.
func Shell(line string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/c", line}
	}
	if line = strings.TrimSpace(line); line != "" && !strings.ContainsAny(line, meaningful) {
		line = "exec " + line
	}
	return []string{"sh", "-c", line}
}
