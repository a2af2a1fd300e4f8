package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFiguresAreFilesByTheirTitles(t *testing.T) {
	t.Parallel()
	home, _ := replicatesHome(t)
	dir := filepath.Join(t.TempDir(), "figures")
	var drawn drawnFigures
	if err := json.Unmarshal(outputOf(t, home, "results", "--format", "svg", "-o", dir, "--json"), &drawn); err != nil {
		t.Fatal(err)
	}
	page := string(outputOf(t, home, "results", "--format", "html"))
	if n := strings.Count(page, "<svg"); n != len(drawn.Figures) || n == 0 || drawn.Folder != dir {
		t.Errorf("%d figures in %s, and %d on the page", len(drawn.Figures), drawn.Folder, n)
	}
	for _, f := range drawn.Figures {
		data, err := os.ReadFile(filepath.Join(dir, f.File))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(data, []byte(`<svg xmlns="http://www.w3.org/2000/svg"`)) || !strings.Contains(string(data), `aria-label="`+f.Title) {
			t.Errorf("%s is no figure of %q", f.File, f.Title)
		}
	}
	if want := "00-mean-exposure-of-canaries-bits-by-data-partition.svg"; drawn.Figures[0].File != want {
		t.Errorf("the first file is %s, want %s", drawn.Figures[0].File, want)
	}
	if text := string(outputOf(t, home, "results", "--format", "svg", "-o", dir)); !strings.Contains(text, filepath.Join(dir, drawn.Figures[0].File)+": "+drawn.Figures[0].Caption+"\n") {
		t.Errorf("the command says %q, not what the first figure is", text)
	}
}

func TestFiguresNeedAFolder(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--format svg writes many files: name the folder for them by -o": {"--format", "svg"},
		"--rows means: format svg has figures; leave out --rows":         {"--format", "svg", "-o", "figures", "--rows", "means"},
	} {
		var out, messages bytes.Buffer
		args = append([]string{"results", "--home", t.TempDir()}, args...)
		if code := execute(t.Context(), args, &out, &messages); code != exitUsage || !strings.Contains(messages.String(), want) {
			t.Errorf("%v: exit status %d, %s; want %q", args, code, messages.String(), want)
		}
	}
}
