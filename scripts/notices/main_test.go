package main

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"

	"coalmine/internal/build"
	"coalmine/internal/must"
)

func TestNoticeHasEveryLinkedModuleInItsVersion(t *testing.T) {
	t.Parallel()
	notice := must.Get(os.ReadFile("../../NOTICE"))(t)
	modules, err := linked(runtime.GOOS + "/" + runtime.GOARCH)
	if err != nil || len(modules) < 50 {
		t.Fatal(len(modules), err)
	}
	for name := range modules {
		if !bytes.Contains(notice, []byte("\n"+name+", ")) {
			t.Errorf("NOTICE lacks the licence of %s, which coalmine links: run go generate ./internal/build and commit the result", name)
		}
	}
}

func TestEmbeddedNoticeMatchesFile(t *testing.T) {
	t.Parallel()
	file := must.Get(os.ReadFile("../../NOTICE"))(t)
	if embedded, err := build.Notice(); err != nil || embedded != string(file) {
		t.Errorf("internal/build/notice.gz holds %d bytes, NOTICE %d (%v): run go generate ./internal/build and commit the result", len(embedded), len(file), err)
	}
}

// A module whose licence nobody finds must not be released in silence.
func TestModuleWithoutLicenceIsRejected(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if _, err := collect(map[string][]string{"example.com/m v1.0.0": {folder}}); err == nil || !strings.Contains(err.Error(), "example.com/m v1.0.0 has no licence file") {
		t.Errorf("%v, want an error that names the module", err)
	}
	must.Do(t, os.WriteFile(folder+"/UNLICENSE", []byte("free\r\n"), 0o600))
	texts, err := collect(map[string][]string{"example.com/m v1.0.0": {folder}})
	if err != nil || len(texts) != 1 || texts[0].content != "free" {
		t.Error(texts, err)
	}
}
