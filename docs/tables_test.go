package docs

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy/correlated"
)

// numbers is a table of a page of which most cells are numbers.
type numbers struct {
	page, head string
	rows       [][]string
	around     string // from the heading or table before it to the one after it
	marker     string // the comment on the line before it
}

var (
	tableOf   = regexp.MustCompile(`(?m)(?:^ *<!-- (.*) -->\n)?((?:^ *\|.*\n)+)`)
	beginning = regexp.MustCompile(`^[*~<>= ]*[+-]?\d`)
	// command is one that somebody can run, by itself or in a sentence.
	command = regexp.MustCompile("(?m)(?:`|^[$ ]*)(?:coalmine|go run|go test|make|python3|scripts/|(?:docs/|examples/)[a-z0-9_/-]+\\.(?:py|yaml))[ \\w`/.-]|`[a-z0-9-]+-small`")
	section = regexp.MustCompile(`(?m)^##+ .*$`)
)

// cells are those of a row.
func cells(row string) []string {
	row = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(row), "|"), "|")
	all := strings.Split(row, "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// tablesOf are the tables of numbers of a page.
func tablesOf(name, page string) (found []numbers) {
	page = block.ReplaceAllStringFunc(page, func(code string) string { return strings.ReplaceAll(code, "\n|", "\n ") })
	places := tableOf.FindAllStringSubmatchIndex(page, -1)
	for i, at := range places {
		lines := strings.Split(strings.TrimSpace(page[at[4]:at[5]]), "\n")
		n := numbers{page: name, head: lines[0], around: around(page, places, i)}
		if at[2] >= 0 {
			n.marker = page[at[2]:at[3]]
		}
		of, numeric := 0, 0
		for _, line := range lines[min(2, len(lines)):] {
			row := cells(line)
			n.rows = append(n.rows, row)
			for _, cell := range row[1:] {
				if cell != "" {
					of++
				}
				if beginning.MatchString(cell) {
					numeric++
				}
			}
		}
		if 2*numeric > of {
			found = append(found, n)
		}
	}
	return found
}

// around is the text of table i up to the tables or headings on both sides.
func around(page string, places [][]int, i int) string {
	from, to := 0, len(page)
	if i > 0 {
		from = places[i-1][1]
	}
	if i+1 < len(places) {
		to = places[i+1][0]
	}
	before, after := page[from:places[i][0]], page[places[i][1]:to]
	if headings := section.FindAllStringIndex(before, -1); headings != nil {
		before = before[headings[len(headings)-1][1]:]
	}
	if next := section.FindStringIndex(after); next != nil {
		after = after[:next[0]]
	}
	return before + after
}

// Each table of numbers has a command beside it, is made of results, or is compared with
// a command's output.
func TestTablesOfNumbersNameTheirCommand(t *testing.T) {
	t.Parallel()
	n := 0
	for _, table := range allTables(t) {
		n++
		if table.marker == "" && !command.MatchString(table.around) {
			t.Errorf("%s: neither a marker nor a command stands beside the table\n%s", table.page, table.head)
		}
	}
	if n < 60 {
		t.Errorf("the test recognises only %d tables", n)
	}
}

// allTables are the tables of numbers of all pages.
func allTables(t *testing.T) (found []numbers) {
	t.Helper()
	all := pages(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "bench/") {
			continue // measurements of its programs on some machine
		}
		found = append(found, tablesOf(name, all[name])...)
	}
	return found
}

// The noise in a model after rounds is the sensitivity times the root of the variance of
// a prefix sum.
func TestNoiseOfMechanismsIsThatOfPrefixSums(t *testing.T) {
	t.Parallel()
	part := correlated.Participation{Rounds: 777, Separation: 259, Times: 3} // dp-ftrl-small.yaml
	blt := must.Get(correlated.OptimizeBLT(part, 2))(t)
	strategies := map[string]correlated.Strategy{"independent": correlated.Independently(), "tree": correlated.Tree{}, "BLT": blt}
	for _, table := range allTables(t) {
		if table.marker != "compared by "+t.Name() {
			continue
		}
		for _, row := range table.rows {
			squared := must.Get(strategies[row[0]].SquaredSensitivity(part))(t)
			of := func(variance float64) string { return fmt.Sprintf("%.1f", math.Sqrt(squared*variance)) }
			variances := strategies[row[0]].Errors(part.Rounds)
			if last, largest := of(variances[part.Rounds-1]), of(slices.Max(variances)); row[1] != last || row[2] != largest {
				t.Errorf("%s: the noise is %s and %s, and the page has %v", row[0], last, largest, row[1:])
			}
			delete(strategies, row[0])
		}
	}
	if len(strategies) > 0 {
		t.Errorf("no row of a table was compared for %v", slices.Collect(maps.Keys(strategies)))
	}
}

var picture = regexp.MustCompile(`!\[[^\]]*\]\(`)

// Each section with pictures has the command that makes them.
func TestPicturesNameTheirCommand(t *testing.T) {
	t.Parallel()
	n := 0
	for name, page := range pages(t) {
		at := 0
		for _, heading := range append(section.FindAllStringIndex(page, -1), []int{len(page), len(page)}) {
			text := page[at:heading[0]]
			at = heading[0]
			pictures := len(picture.FindAllString(text, -1))
			if n += pictures; pictures > 0 && !command.MatchString(text) {
				title, _, _ := strings.Cut(text, "\n")
				t.Errorf("%s: no command stands beside the pictures of %q", name, title)
			}
		}
	}
	if n < 8 {
		t.Errorf("the test recognises only %d pictures", n)
	}
}
