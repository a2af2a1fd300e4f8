// This file finds test data outside the repository: too large for it, or
// under its own licence.
//
// The data are in the folder that COALMINE_DATA names, by default shared/data next to
// the clone. A test that uses them also runs on a small substitute of the same form,
// which it makes or ships, so that it is useful in any clone:
//
//	t.Run("drawn", func(t *testing.T) { test(t, drawDigits(t)) })
//	t.Run("handwritten", func(t *testing.T) { test(t, clone.SharedData(t, "mnist-writers")) })

package clone

import (
	"os"
	"path/filepath"
	"testing"
)

// SharedDataVariable names the folder with the data.
const SharedDataVariable = "COALMINE_DATA"

// SharedData returns the directory of a data set. It skips the test if the directory is
// absent.
func SharedData(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(folder(), name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the data set %s is not here: %v; %s names the folder that has it", name, err, SharedDataVariable)
	}
	return dir
}

// folder returns the folder of all data sets.
func folder() string {
	if dir := os.Getenv(SharedDataVariable); dir != "" {
		return dir
	}
	root, _ := Root()
	return filepath.Join(root, "..", "shared", "data")
}
