package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A source with records at fault is refused; where they are to be skipped, the results say how
// many were, as a table and in JSON.
func TestResultsCountSkippedRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, file := filepath.Join(dir, "home"), filepath.Join(dir, "skipped.yaml")
	rows := "author,body\n"
	for i := range 300 {
		rows += fmt.Sprintf("u%d,w%d w%d w%d\n", i%9, i%31, i*i%37, i*7%29)
	}
	rows = strings.Replace(rows, "\nu0,", "\n,", 1)          // line 2: no user
	rows = strings.Replace(rows, "\nu8,w8", "\nu8,w\xff", 1) // line 10: no UTF-8
	for name, content := range map[string]string{
		"posts.csv": rows,
		"skipped.yaml": "name: skipped\ndata: {source: posts.csv, form: csv, columns: {user: author, text: body}, users: {words: 50}, vocabulary: {size: 20}}\n" +
			"model: {embedding: 4, units: 4}\ntraining: {rounds: 1, cohort: 1}\naudit: {utility: true}\n",
	} {
		writeFile(t, filepath.Join(dir, name), content)
	}
	refuses(t, `posts.csv, line 2: "author" is empty`, "run", file, "--home", home)
	const left = `data.on_error left out 2 faulty records of the source, the first in file 1, line 2: "author" is empty`
	if printed := prints(t, "run", file, "--set", "data.on_error=skip", "--home", home); !strings.Contains(printed, left) {
		t.Errorf("%q does not say %q", printed, left)
	}
	want := `"skipped":{"records":2,"first":["file 1, line 2: \"author\" is empty","file 1, line 10: \"body\" is not valid UTF-8`
	if printed := prints(t, "results", "latest", "--json", "--home", home); !strings.Contains(strings.Join(strings.Fields(printed), ""), strings.Join(strings.Fields(want), "")) {
		t.Errorf("%s does not have %s", printed, want)
	}
}
