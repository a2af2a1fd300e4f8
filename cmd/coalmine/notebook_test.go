package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/testserver"
)

// The lines for pandas that the docs show, on the tables of a run.
func TestNotebooksReadTheTablesElsewhere(t *testing.T) {
	t.Parallel()
	pandas := testserver.Python(t, "pandas")
	docs := contentOf(t, "../../docs/api.md")
	lines := regexp.MustCompile("(?s)```python\n(import pandas.*?)```").FindStringSubmatch(docs)
	if lines == nil {
		t.Fatal("docs/api.md has no lines for pandas")
	}
	home := smallRun(t, jsonFile)
	dir := t.TempDir()
	for _, table := range []string{"cells", "canaries", "rounds"} {
		outputOf(t, home, "results", "--format", "csv", "--table", table, "-o", filepath.Join(dir, table+".csv"))
	}
	printed := runPython(t, dir, pandas, "-c", lines[1])
	for _, want := range []string{"fedavg", "sgd"} {
		if !strings.Contains(printed, want) {
			t.Errorf("no row of %s: %s", want, printed)
		}
	}
}
