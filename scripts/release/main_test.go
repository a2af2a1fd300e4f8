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

	"coalmine/internal/must"
)

var made = time.Unix(1_700_000_000, 0).UTC()

func TestAnArchiveHasFixedTimesAndOwners(t *testing.T) {
	t.Parallel()
	files := []file{{"coalmine", []byte("program"), true}, {name: "man/man1/coalmine.1", content: []byte("page")}}
	packed := must.Get(tarred("coalmine-1", files, made))(t)
	unpacked := must.Get(gzip.NewReader(bytes.NewReader(packed)))(t)
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
	self := must.Get(os.Executable())(t)
	program := must.Get(os.ReadFile(self))(t)
	text := must.Get(billOfMaterials(program, made))(t)
	var b bill
	must.Do(t, json.Unmarshal(text, &b))
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
