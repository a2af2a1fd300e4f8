package sources

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// FuzzAllowed names sources to a server that allows one directory, with secrets
// around it: no opened file holds one.
func FuzzAllowed(f *testing.F) {
	const secret = "secret"
	base := directory(f, map[string]string{
		"root/a.jsonl": "data", "root/sub/b.jsonl": "data", "a.jsonl": secret, "rooted/a.jsonl": secret,
	})
	for at, to := range map[string]string{"link.jsonl": "../a.jsonl", "up": "..", "sub/abs": filepath.Join(base, "rooted")} {
		must.Do(f, os.Symlink(to, filepath.Join(base, "root", at)))
	}
	allowed := must.Get(Allow([]string{filepath.Join(base, "root")}))(f)
	for _, name := range []string{
		"a.jsonl", ".", "sub", "sub/b.jsonl", "../a.jsonl", "up/a.jsonl", "link.jsonl", "sub/abs/a.jsonl", "BASE/root/a.jsonl",
		"BASE/rooted/a.jsonl", "BASE/root/../a.jsonl", "//a.jsonl", "a.jsonl\x00", "s3://bucket/dat", "s3://bucket/data/../x", "s3://",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		name = strings.ReplaceAll(name, "BASE", base)
		s, err := allowed.Find(t.Context(), name, "")
		if err != nil {
			return
		}
		for _, file := range s.Files {
			body, err := file.Open(t.Context())
			if err != nil {
				continue
			}
			data, err := io.ReadAll(body)
			body.Close()
			if err != nil || string(data) == secret {
				t.Errorf("%q opens %s, which holds %q, %v", name, file.Name, data, err)
			}
		}
	})
}
