package childprocess

import "runtime"

// Shell are the arguments by which the system's shell runs a command line.
func Shell(line string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/c", line}
	}
	return []string{"sh", "-c", line}
}
