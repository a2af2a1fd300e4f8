package compiletest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/tasks/taskstest"
	"coalmine/workflows/experiment"
)

// Mistakes parses every file testdata/mistakes/*.yaml, each of which must be invalid, and
// compares the error with the .txt file of the same name.
func Mistakes(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files with mistakes: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = experiment.Parse(filepath.Base(file), data, experiment.Options{}); err == nil {
			t.Fatalf("%s: no mistake was found", file)
		}
		taskstest.File(t, strings.TrimSuffix(file, ".yaml")+".txt", []byte(err.Error()+"\n"))
	}
}
