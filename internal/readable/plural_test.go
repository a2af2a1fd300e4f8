package readable_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/clone"
	"coalmine/internal/must"
	"coalmine/internal/readable"
)

func TestCountAgreesWithNoun(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"1 user": readable.Count(1, "user"), "0 users": readable.Count(0, "user"), "21 balanced users": readable.Count(21, "balanced user"),
		"2 canaries": readable.Count(int64(2), "canary"), "1 canary": readable.Count(1, "canary"), "2 days": readable.Count(2, "day"), "2 keys": readable.Count(2, "key"),
		"c01": readable.Range("c01", "c01"), "c01 to c12": readable.Range("c01", "c12"),
		"3 losses": readable.Count(3, "loss"), "2 batches": readable.Count(2, "batch"), "2 boxes": readable.Count(2, "box"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestShareRounding(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]string{0: "0%", 0.00031: "0.031%", 0.0866: "8.7%", 0.1: "10%", 0.3449: "34%", 0.996: "100%", 1: "100%", 1.54: "154%"} {
		if got := readable.Share(share); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
}

// maxUncounted only falls: it is how many formats say "%d users" where one user would be "1 users".
const maxUncounted = 129

func TestFormatsUseCountForPlurals(t *testing.T) {
	t.Parallel()
	root, ok := clone.Root()
	if !ok {
		t.Skip("this is no clone of the repository")
	}
	counted := regexp.MustCompile(`%d (users|cells|rounds|tasks|canaries|runs|examples|steps|files|devices|images|copies|places|times|attempts|objects|updates)\b`)
	found := 0
	for _, folder := range []string{"cmd", "tasks", "workflows"} {
		must.Do(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			for line := range bytes.Lines(data) {
				if n := len(counted.FindAll(line, -1)); n > 0 && !bytes.HasPrefix(bytes.TrimSpace(line), []byte("//")) {
					found += n
				}
			}
			return err
		}))
	}
	if found > maxUncounted {
		t.Errorf("%d formats count a noun by %%d, more than the %d that did: write it by readable.Count", found, maxUncounted)
	}
}
