package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/workflows/data/sources"
)

// novels writes a folder of text files for each of n users. One line is not UTF-8.
func novels(t *testing.T, users int) string {
	t.Helper()
	dir := t.TempDir()
	for u := range users {
		folder := filepath.Join(dir, fmt.Sprint("user ", u))
		must.Do(t, os.MkdirAll(folder, 0o700))
		for f := range 2 {
			text := strings.Repeat(fmt.Sprintf("some words of user %d\nand of file %d\n\n", u, f), 6)
			if u+f == 0 {
				text += "\xff\n"
			}
			writeFile(t, filepath.Join(folder, fmt.Sprint(f, ".txt")), text)
		}
	}
	return dir
}

// A directory of text files is inspected, imported and trained on as it is; faults are named by
// file and line, or counted in the results.
func TestADirectoryOfTextFilesIsTrainedOn(t *testing.T) {
	t.Parallel()
	dir := novels(t, 6)
	home, file := filepath.Join(t.TempDir(), "home"), filepath.Join(t.TempDir(), "novels.yaml")
	experiment := "name: novels\ndata: {source: " + dir + ", unit: paragraph, on_error: skip, users: {words: 20}, vocabulary: {size: 10}}\n" +
		"model: {embedding: 4, units: 4}\ntraining: {rounds: 1, cohort: 1}\naudit: {utility: true}\n"
	writeFile(t, file, experiment)
	refuses(t, `user 0/0.txt, line 19: "text" is not valid UTF-8 from its byte 1`, "data", "inspect", dir)
	for unit, examples := range map[string]int{"line": 144, "paragraph": 72, "file": 11} {
		printed := prints(t, "data", "inspect", dir, "--unit", unit, "--skip-faults", "--vocabulary", "10", "--words", "20", "--json")
		if !strings.Contains(printed, fmt.Sprintf(`"examples": %d`, examples)) || !strings.Contains(printed, `"records": 1`) {
			t.Errorf("by %s: %s, want %d examples", unit, printed, examples)
		}
	}
	var entry sources.Entry
	imported := prints(t, "data", "import", dir, "--unit", "paragraph", "--skip-faults", "--name", "novels", "--home", home, "--json")
	if err := json.Unmarshal([]byte(imported), &entry); err != nil || len(entry.Files) != 1 || entry.Holds.Examples != 72 {
		t.Fatalf("%v, %+v", err, entry)
	}
	code, _, messages := coalmine(t, "data", "import", dir, "--skip-faults", "--home", home)
	if code != exitDone || !strings.Contains(messages, "left out 1 faulty record of the source, the first in file 1, user 0/0.txt, line 19") {
		t.Errorf("exit status %d: %s", code, messages)
	}
	prints(t, "run", file, "--home", home)
	if printed := prints(t, "results", "latest", "--home", home); !strings.Contains(printed, "data.on_error left out 1 faulty record of the source, the first in file 1, user 0/0.txt, line 19") {
		t.Error(printed)
	}
	refuses(t, "expected one of line, paragraph, file, of the form texts", "data", "inspect", dir, "--form", "csv", "--unit", "line")
}
