package tempfiles

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"coalmine/internal/must"
)

var errHalf = errors.New("no space left")

// half writes the beginning of a file and fails, as on a full disk.
func half(w io.Writer) error {
	_, err := io.WriteString(w, "ha")
	return errors.Join(err, errHalf)
}

func TestFailedReplaceKeepsOldFile(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "older"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "report.html")
		var want []string
		if before != "" {
			must.Do(t, os.WriteFile(path, []byte(before), 0o600))
			want = []string{"report.html"}
		}
		if err := Replace(path, half); !errors.Is(err, errHalf) {
			t.Errorf("error %v", err)
		}
		if got := names(t, dir); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("before %q, the directory has %q; expected %q", before, got, want)
		}
		if before != "" {
			expectFile(t, path, before)
		}
	}
}

func TestReplaceKeepsPermissionsAndLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link, dangling := filepath.Join(dir, "a"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	must.Do(t, os.WriteFile(path, []byte("older"), 0o600))
	must.Do(t, os.Symlink("a", link))
	must.Do(t, os.Symlink("b", dangling))
	must.Do(t, WriteFile(link, []byte("newer")))
	must.Do(t, WriteFile(dangling, []byte("new")))
	expectFile(t, path, "newer")
	expectFile(t, filepath.Join(dir, "b"), "new")
	if got := must.Get(os.Stat(path))(t).Mode(); got != 0o600 {
		t.Errorf("mode %v; expected that of the older file", got)
	}
	if got := names(t, dir); fmt.Sprint(got) != "[a b dangling link]" {
		t.Errorf("the directory has %q", got)
	}
}

func TestDeviceIsWrittenDirectly(t *testing.T) {
	t.Parallel()
	before := must.Get(os.Stat(os.DevNull))(t)
	must.Do(t, WriteFile(os.DevNull, []byte("text")))
	if after := must.Get(os.Stat(os.DevNull))(t); !os.SameFile(before, after) {
		t.Errorf("%s was replaced", os.DevNull)
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		names = append(names, e.Name())
	}
	return names
}

func expectFile(t *testing.T, path, want string) {
	t.Helper()
	if got := must.Get(os.ReadFile(path))(t); string(got) != want {
		t.Errorf("%s has %q; expected %q", path, got, want)
	}
}
