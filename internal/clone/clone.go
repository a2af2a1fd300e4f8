// Package clone finds the clone of the repository that a test runs in, and the test data next to it.
package clone

import (
	"os"
	"path/filepath"
)

// Root returns the nearest directory with go.mod, from the test's upwards; false if there is none,
// such as for a test binary run outside a clone.
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
