package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFiguresAreFilesNamedByTitle(t *testing.T) {
	t.Parallel()
	home, _ := replicatesHome(t)
	dir := filepath.Join(t.TempDir(), "figures")
	var drawn drawnFigures
	decodeJSON(t, outputOf(t, home, "results", "--format", "svg", "-o", dir, "--json"), &drawn)
	page := outputOf(t, home, "results", "--format", "html")
	if n := strings.Count(page, "<svg"); n != len(drawn.Figures) || n == 0 || drawn.Folder != dir {
		t.Errorf("%d figures in %s, and %d on the page", len(drawn.Figures), drawn.Folder, n)
	}
	for _, f := range drawn.Figures {
		data := contentOf(t, filepath.Join(dir, f.File))
		if !strings.HasPrefix(data, `<svg xmlns="http://www.w3.org/2000/svg"`) || !strings.Contains(data, `aria-label="`+f.Title) {
			t.Errorf("%s is no figure of %q", f.File, f.Title)
		}
	}
	if want := "00-mean-exposure-of-canaries-bits-by-data-partition.svg"; drawn.Figures[0].File != want {
		t.Errorf("the first file is %s, want %s", drawn.Figures[0].File, want)
	}
	if text := outputOf(t, home, "results", "--format", "svg", "-o", dir); !strings.Contains(text, filepath.Join(dir, drawn.Figures[0].File)+": "+drawn.Figures[0].Caption+"\n") {
		t.Errorf("the command says %q, not what the first figure is", text)
	} else if strings.Count(text, "): Exposure against copies") < 2 || strings.Count(text, "): Exposure against copies. A dot is a canary") != 1 {
		t.Errorf("figures of cells do not name their cells, or their marks are not explained once:\n%s", text)
	}
}

func TestFiguresRejectInvalidFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--format svg writes several files: name a folder with -o": {"--format", "svg"},
		`--width: width "wide": expected one-column (85 mm) or`:    {"--format", "pdf", "-o", "figures", "--width", "wide"},
		"--rows means: format svg draws figures; remove --rows":    {"--format", "svg", "-o", "figures", "--rows", "means"},
	} {
		args = append([]string{"results", "--home", t.TempDir()}, args...)
		refuses(t, want, args...)
	}
}

// A PDF has a page for each figure, and pictures are files of one figure.
func TestPDFHoldsAllFiguresAndPNGOne(t *testing.T) {
	t.Parallel()
	home, _ := replicatesHome(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "all.pdf")
	pages := strings.Count(outputOf(t, home, "results", "--format", "pdf", "-o", file), "\n")
	data, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(data, []byte("%PDF-1.4")) || bytes.Count(data, []byte("/Type /Page ")) != pages || pages < 2 {
		t.Errorf("%d pages in %.40q, %v", pages, data, err)
	}
	one := filepath.Join(dir, "one.png")
	refuses(t, "choose one with --figure", "results", "--home", home, "--format", "png", "-o", one)
	outputOf(t, home, "results", "--format", "png", "--width", "two-columns", "--figure", "00-mean", "-o", one)
	if data, err := os.ReadFile(one); err != nil || !bytes.HasPrefix(data, []byte("\x89PNG")) {
		t.Errorf("%.40q, %v", data, err)
	}
}
