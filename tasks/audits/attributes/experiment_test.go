package attributes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/tasks/taskstest"
	"coalmine/workflows/experiment"
)

// What can't be measured is refused before anything runs, every mistake with its place.
func TestEveryMistakeIsNamed(t *testing.T) {
	t.Parallel()
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
		taskstest.File(t, strings.TrimSuffix(file, ".yaml")+".txt", []byte(strings.TrimSpace(err.Error())+"\n"))
	}
}
