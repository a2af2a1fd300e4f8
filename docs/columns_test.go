package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// The golden file with replicates has every column, in the order of the declarations.
func TestEveryColumnOfCanariesIsDescribedOnce(t *testing.T) {
	t.Parallel()
	golden := must.Get(os.ReadFile(filepath.Join(root(t), "workflows/results/testdata/replicates-canaries.csv")))(t)
	header, _, _ := strings.Cut(string(golden), "\n")
	_, section, _ := strings.Cut(pages(t)["docs/results.md"], "## Columns of canaries\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var described []string
	for _, row := range regexp.MustCompile("(?m)^\\|(`.*?) \\|").FindAllStringSubmatch(section, -1) {
		for _, column := range regexp.MustCompile("`(.*?)`").FindAllStringSubmatch(row[1], -1) {
			described = append(described, column[1])
		}
	}
	columns := strings.Split(header, ",")
	slices.Sort(columns)
	slices.Sort(described)
	if !slices.Equal(columns, described) {
		t.Errorf("docs/results.md describes\n%q\nand the program writes\n%q", described, columns)
	}
}
