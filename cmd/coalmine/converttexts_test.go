package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// A folder of text files becomes a source that can be looked at like any other.
func TestConvertTextsWritesSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"ann", "bob"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, "texts", name), 0o755))
		writeFile(t, filepath.Join(dir, "texts", name, "a.txt"), "One sentence of "+name+".\nAnother one.\n")
	}
	to := filepath.Join(dir, "texts.jsonl.gz")
	run := func(args ...string) (int, string) {
		code, out, messages := coalmine(t, append(args, "--home", filepath.Join(dir, "none"))...)
		return code, out + messages
	}
	if code, said := run("data", "convert", "texts", filepath.Join(dir, "texts"), "-o", to); code != exitDone || !strings.Contains(said, "4 examples of 2 users in 2 files") {
		t.Fatalf("exit status %d: %s", code, said)
	}
	if code, said := run("data", "inspect", to, "--json"); code != exitDone || !strings.Contains(said, `"users":2`) && !strings.Contains(said, `"users": 2`) {
		t.Errorf("exit status %d: %s", code, said)
	}
	for want, args := range map[string][]string{
		`--unit "word": expected one of [line paragraph file]`: {"--unit", "word", "-o", to},
		"expected a name that ends in .jsonl":                  {"-o", "texts.csv"},
	} {
		refuses(t, want, append([]string{"data", "convert", "texts", dir, "--home", filepath.Join(dir, "none")}, args...)...)
	}
}
