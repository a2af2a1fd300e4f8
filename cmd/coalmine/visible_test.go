//go:build unix

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/readable"
)

// hostileFile is an experiment whose axis values, command, data and users act on terminals,
// spreadsheets and typesetters.
const hostileFile = `
name: hostile
seed: 1
data: {source: %s, vocabulary: {size: 5}, users: {words: 10}, test: {fraction: 10%%}}
model: {kind: external}
training: {command: "sh train.sh $'\e[31mred\e[0m\nFORGED'", code: trainer, rounds: 1}
grid:
  axes:
    training.job.x: ["=cmd|' /C calc'!A0", "a\nFORGED", "\e]0;title\a", "\u202eevil", "\\input{/etc/passwd}", "<script>alert(1)</script>"]
`

// hostileTrainer prints escape sequences, leaves a file with such a name, and fails.
const hostileTrainer = `
printf '\033[31mred\007\nFORGED\n\302\233 \342\200\256evil\n' >&2
touch "out/$(printf 'a\033[31m\nFORGED\342\200\256')"
exit 1
`

// Text of others reaches no output raw: no terminal acts on it, no line of output begins with it, no spreadsheet computes it, and no typesetter reads it.
func TestHostileTextIsVisibleInEveryOutput(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, user := range []string{"=1+1", "\x1b[31mred", "\u202eevil", "a\nFORGED"} {
		line := must.Get(json.Marshal(map[string]string{"user": user, "text": strings.Repeat("one two three four five ", 12)}))(t)
		text.Write(append(line, '\n'))
	}
	path, home := smallFiles(t, hostileFile, text.String())
	trainer := filepath.Join(filepath.Dir(path), "trainer")
	must.Do(t, os.Mkdir(trainer, 0o700))
	writeFile(t, filepath.Join(trainer, "train.sh"), hostileTrainer)
	all := func(args ...string) string {
		t.Helper()
		var out, messages bytes.Buffer
		execute(t.Context(), append(args, "--home", home), &out, &messages)
		for stream, text := range map[string]string{"standard output": out.String(), "standard error": messages.String()} {
			if !readable.IsVisible(text) || strings.Contains("\n"+text, "\nFORGED") {
				t.Errorf("coalmine %s writes to %s\n%q", strings.Join(args, " "), stream, text)
			}
		}
		return out.String()
	}
	all("run", path)
	all("note", "latest", "=1+1\nFORGED \u202eevil")
	for _, args := range [][]string{
		{"run", path, "--json"}, {"status"}, {"status", "latest"}, {"status", "latest", "--json"}, {"logs", "latest"}, {"logs", "latest", "--json"},
		{"plan", path}, {"plan", path, "--json"}, {"show", "latest"}, {"show", "latest", "--json"}, {"show", "latest", "--nodes"}, {"show", "latest", "--nodes", "--json"},
		{"compare", "latest/c01", "latest/c02"}, {"compare", "latest/c03", "latest/c04"}, {"compare", "latest/c03", "latest/c04", "--json"},
		{"watch", "latest"}, {"verify", "latest"}, {"gc", "--dry-run"}, {"retry", "latest"}, {"cancel", "latest"}, {"account", "latest"},
		{"export", "latest", "c02"}, {"data", "inspect", path}, {"data", "inspect", path, "--json"},
		{"results", "latest"}, {"results", "latest", "--json"}, {"results", "latest", "--format", "latex"}, {"results", "latest", "--format", "html"},
		{"status", "\x1b[31m"}, {"results", "latest", "--format", "\u202e"}, {"show", "latest", "a\nFORGED"},
	} {
		all(args...)
	}
	if text := all("results", "latest", "--format", "latex"); strings.Contains(text, `\input`) {
		t.Errorf("LaTeX reads a file:\n%s", text)
	}
	if text := all("results", "latest", "--format", "html"); strings.Contains(text, "<script>alert") {
		t.Errorf("HTML has a script of others:\n%s", text)
	}
	checkCells(t, all("results", "latest", "--format", "csv"))
	checkShown(t, path, all("show", "latest"))
	folder := filepath.Join(filepath.Dir(home), "mlflow")
	all("results", "latest", "--format", "mlflow", "-o", folder)
	checkFiles(t, folder)
}

// checkCells makes sure that no cell of CSV is a formula or has a line break.
func checkCells(t *testing.T, text string) {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(records) != 7 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for _, record := range records {
		for _, cell := range record {
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@") || strings.Contains(cell, "\n") {
				t.Errorf("CSV has the cell %q", cell)
			}
		}
	}
}

// checkShown makes sure that the output of show has the values of the file.
func checkShown(t *testing.T, path, shown string) {
	t.Helper()
	again := filepath.Join(filepath.Dir(path), "again.yaml")
	documents := strings.Split(shown, "---\n")
	for i, want := range []string{"=cmd|' /C calc'!A0", "a\nFORGED", "\x1b]0;title\a", "\u202eevil"} {
		writeFile(t, again, documents[i])
		var planned struct {
			Cells []struct{ Cached bool }
		}
		decodeJSON(t, prints(t, "plan", again, "--set", "name=again", "--home", t.TempDir(), "--json"), &planned)
		if len(planned.Cells) != 1 {
			t.Errorf("the document of %q has %d cells", want, len(planned.Cells))
		}
	}
}

// checkFiles makes sure that files for people, and their names, are visible.
func checkFiles(t *testing.T, folder string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		if data, err := os.ReadFile(path); err != nil || !readable.IsVisible(path) || !readable.IsVisible(string(data)) {
			t.Errorf("file %q has %q, %v", path, data, err)
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}
