package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// Each row of the table of upgrades is tested by the function beside it.
func TestTheTestsOfUpgradesExist(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("upgrading.md"))(t)
	missing := map[string]bool{}
	for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1) {
		missing[m[1]] = true
	}
	if len(missing) < 8 {
		t.Fatalf("only %d tests are named", len(missing))
	}
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for name := range missing {
			if strings.Contains(string(source), "\nfunc "+name+"(") {
				delete(missing, name)
			}
		}
		return err
	})
	if err != nil || len(missing) > 0 {
		t.Errorf("upgrading.md names tests that do not exist: %v (%v)", missing, err)
	}
}
