package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/control"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/runs/datadir"
)

// A source that was imported under a name no longer needs its file, and its corpus is the
// node of every reader.
func TestAnImportedSourceIsUsedByItsName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, text, file := filepath.Join(dir, "home"), filepath.Join(dir, "text.jsonl"), filepath.Join(dir, "named.yaml")
	for name, content := range map[string][]byte{
		text: taskstest.Text(300),
		file: []byte("name: named\ndata: {source: 'store:posts', users: {words: 50}, vocabulary: {size: 20}}\nmodel: {embedding: 4, units: 4}\ntraining: {rounds: 1, cohort: 1}\naudit: {utility: true}\n"),
	} {
		must.Do(t, os.WriteFile(name, content, 0o600))
	}
	var entry sources.Entry
	decodeJSON(t, prints(t, "data", "import", text, "--name", "posts", "--home", home, "--json"), &entry)
	must.Do(t, os.Remove(text))
	temporary := filepath.Join(datadir.StorePath(home), "~temporary") // made by any process that may write
	must.Do(t, os.RemoveAll(temporary))
	listed := prints(t, "data", "list", "--home", home)
	if _, err := os.Stat(temporary); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("data list opens the store for writing: %v", err)
	}
	for _, part := range []string{"store:posts", entry.SHA256.Short(), "300"} {
		if !strings.Contains(listed, part) {
			t.Errorf("%q does not list %q", listed, part)
		}
	}
	prints(t, "run", file, "--home", home)
	var shown shownNodes
	decodeJSON(t, prints(t, "show", "latest", "--nodes", "--json", "--home", home), &shown)
	if !slices.ContainsFunc(shown.Nodes, func(n control.Node) bool { return n.Key == entry.Corpus }) {
		t.Errorf("the run has no node %s, which was there", entry.Corpus.Short())
	}
	prints(t, "data", "remove", "store:posts", "--home", home)
	refuses(t, "no such source", "data", "remove", "posts", "--home", home)
	refuses(t, "give --store instead of --server", "data", "list", "--server", "http://127.0.0.1:1")
}

// Reading a large source takes long, so a command first names it.
func TestLargeSourcesAreNamedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "large.jsonl")
	writeFile(t, path, "")
	must.Do(t, os.Truncate(path, largeSource-1))
	if messages := fails(t, "large.jsonl", "data", "inspect", path); strings.Contains(messages, "reading") {
		t.Errorf("a small source: %s", messages)
	}
	must.Do(t, os.Truncate(path, largeSource))
	if messages := fails(t, "large.jsonl", "data", "inspect", path); !strings.HasPrefix(messages, "reading "+path+" (32 MiB)\n") {
		t.Errorf("a large source: %s", messages)
	}
}
