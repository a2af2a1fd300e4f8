// Package shareddata finds test data outside the repository: too large for it, or
// under its own licence.
//
// The data are in the folder that COALMINE_DATA names, by default in shared/data
// beside the clone. A test that uses them also runs on a small substitute of the same
// form, which it makes or ships, so that it is useful in any clone:
//
//	t.Run("drawn", func(t *testing.T) { test(t, drawDigits(t)) })
//	t.Run("handwritten", func(t *testing.T) { test(t, shareddata.Dir(t, "mnist-writers")) })
package shareddata

import (
	"os"
	"path/filepath"
	"testing"

	"coalmine/internal/clone"
)

// Variable names the folder with the data.
const Variable = "COALMINE_DATA"

// Dir returns the directory of a data set. It skips the test if the directory is
// absent.
func Dir(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(folder(), name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the data set %s is not here: %v; %s names the folder that has it", name, err, Variable)
	}
	return dir
}

// folder has all data sets.
func folder() string {
	if dir := os.Getenv(Variable); dir != "" {
		return dir
	}
	root, _ := clone.Root()
	return filepath.Join(root, "..", "shared", "data")
}
