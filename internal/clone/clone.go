// Package clone finds the clone of the repository that a test runs in, and the test data next to it.
package clone

import (
	"os"
	"path/filepath"
	"testing"
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

// SharedDataVariable names the folder with the data, by default shared/data next to the clone.
const SharedDataVariable = "COALMINE_DATA"

// SharedData returns the directory of a data set that is too large for the repository, or
// under its own licence. It skips the test if the directory is absent: such a test also
// runs on a small substitute of the same form, which it makes or ships.
func SharedData(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(folder(), name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the data set %s is not here: %v; %s names the folder that has it", name, err, SharedDataVariable)
	}
	return dir
}

func folder() string {
	if dir := os.Getenv(SharedDataVariable); dir != "" {
		return dir
	}
	root, _ := Root()
	return filepath.Join(root, "..", "shared", "data")
}
