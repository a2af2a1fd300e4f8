package storage_test

import (
	"errors"
	"path"
	"strings"
	"testing"

	"coalmine/storage"
)

// A name that is accepted must be safe as a path below a directory.
func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"commits/0a", "a..b/...c", "../a", "a//b", "a/", "é", "~temporary", strings.Repeat("x", 513)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := storage.CheckName(name)
		if err != nil {
			if !errors.Is(err, storage.ErrName) {
				t.Errorf("%q: %v does not wrap %q", name, err, storage.ErrName)
			}
			return
		}
		if path.Clean("/"+name) != "/"+name || len(name) > 512 || strings.ContainsAny(name, "\\:~\x00") {
			t.Errorf("%q is accepted", name)
		}
	})
}

func TestRunIDs(t *testing.T) {
	t.Parallel()
	for id, ok := range map[string]bool{
		"a": true, "quickstart-2026.11_01": true, "0": true, strings.Repeat("x", 81): true,
		"": false, "-a": false, ".a": false, "A": false, "a/b": false, "a b": false, "a\n": false, strings.Repeat("x", 82): false,
	} {
		if err := storage.CheckRunID(id); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
}
