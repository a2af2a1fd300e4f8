package all_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/experiment"
)

// Every audit refuses the files testdata/mistakes/*.yaml of its folder before anything runs. The error names each mistake
// with its place, and stands beside the file, ending in .txt.
func TestEveryMistakeIsNamed(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob("../*/*/testdata/mistakes/*.yaml"))(t)
	if len(files) == 0 {
		t.Fatal("no folder of an audit has files with mistakes")
	}
	for _, file := range files {
		_, err := experiment.Parse(filepath.Base(file), must.Get(os.ReadFile(file))(t), experiment.Options{})
		if err == nil {
			t.Errorf("%s: no mistake was found", file)
			continue
		}
		taskstest.File(t, strings.TrimSuffix(file, ".yaml")+".txt", []byte(err.Error()+"\n"))
	}
}
