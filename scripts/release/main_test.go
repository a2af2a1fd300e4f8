package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

var made = time.Unix(1_700_000_000, 0).UTC()

func TestAnArchiveHasFixedTimesAndOwners(t *testing.T) {
	t.Parallel()
	files := []file{{"coalmine", []byte("program"), true}, {name: "man/man1/coalmine.1", content: []byte("page")}}
	packed, err := tarred("coalmine-1", files, made)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{"coalmine-1/coalmine": 0o755, "coalmine-1/man/man1/coalmine.1": 0o644}
	r, seen := tar.NewReader(unpacked), 0
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if seen++; !h.ModTime.Equal(made) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Mode != modes[h.Name] {
			t.Errorf("%+v", h)
		}
	}
	if seen != len(files) {
		t.Errorf("%d files in the archive, want %d", seen, len(files))
	}
}

// The test's own binary stands for a release: it links modules, as a release does.
func TestABillOfMaterialsListsModulesAndPackages(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	text, err := billOfMaterials(program, made)
	if err != nil {
		t.Fatal(err)
	}
	var b bill
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || b.Metadata.Component.Name != "coalmine" || len(b.Metadata.Component.Hashes[0].Content) != 64 {
		t.Errorf("%+v", b.Metadata)
	}
	urls := map[string]bool{}
	for _, c := range b.Components {
		if c.Name == "" || c.Version == "" || urls[c.PURL] {
			t.Errorf("%+v", c)
		}
		urls[c.PURL] = true
	}
	for _, prefix := range []string{"pkg:golang/std@1.", "pkg:golang/golang.org/x/net@v", "pkg:npm/%40dagrejs/dagre@", "pkg:npm/svelte@"} {
		if !strings.Contains(string(text), `"`+prefix) {
			t.Errorf("the bill of materials lacks %s", prefix)
		}
	}
}
