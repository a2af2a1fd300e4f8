// Package clone finds the clone of the repository that a test runs in, and the test data beside it.
package clone

import (
	"os"
	"path/filepath"
)

// Root returns the directory at or above the test's that holds go.mod; false if
// there is none, as for a test binary run elsewhere.
func Root() (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}
