package docs

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
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
	section = regexp.MustCompile(`(?m)^#+ .*$`)
)

// cells are those of a row.
func cells(row string) []string {
	all := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
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

// Each table of numbers is made of results, held against what its command printed, or has its command beside it.
func TestTablesOfNumbersNameTheirCommand(t *testing.T) {
	t.Parallel()
	n := 0
	for name, text := range pages(t) {
		if filepath.Dir(name) != "docs" && name != "README.md" {
			continue
		}
		for _, table := range tablesOf(name, text) {
			n++
			if table.marker == "" && !command.MatchString(table.around) {
				t.Errorf("%s: neither a marker nor a command stands beside the table\n%s", name, table.head)
			}
		}
	}
	if n < 60 {
		t.Errorf("the test recognises only %d tables", n)
	}
}

var printed = regexp.MustCompile(`[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?`)

// valuesIn are the numbers of a text.
func valuesIn(text string) (found []float64) {
	for _, number := range printed.FindAllString(text, -1) {
		x, _ := strconv.ParseFloat(strings.ReplaceAll(number, ",", ""), 64)
		found = append(found, x)
	}
	slices.Sort(found)
	return found
}

// among reports whether a number is one of the sorted values, or a hundred times it, to its digits.
func among(values []float64, text string) bool {
	text = strings.ReplaceAll(text, ",", "")
	x, _ := strconv.ParseFloat(text, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	_, decimals, _ := strings.Cut(mantissa, ".")
	power, _ := strconv.Atoi(exponent)
	half := 0.50001 * math.Pow10(power-len(decimals))
	for _, unit := range []float64{1, 100} {
		if i, _ := slices.BinarySearch(values, (x-half)/unit); i < len(values) && values[i] <= (x+half)/unit {
			return true
		}
	}
	return false
}

// kept is the comment before a table whose numbers are those of files with what commands printed. Its
// first column, and rows and columns of a paper, are not. What follows a semicolon in a cell may be
// of other seeds.
var kept = regexp.MustCompile(`^numbers of (.*?)(, up to the semicolon)?$`)

func TestNumbersOfTablesAreThoseThatCommandsPrinted(t *testing.T) {
	t.Parallel()
	for name, text := range pages(t) {
		for _, table := range tablesOf(name, text) {
			match := kept.FindStringSubmatch(table.marker)
			if match == nil {
				continue
			}
			var all strings.Builder
			for _, file := range strings.Fields(match[1]) {
				data, err := os.ReadFile(filepath.Join(root(t), filepath.Dir(name), file))
				if err != nil {
					t.Fatal(err)
				}
				all.Write(data)
			}
			table.compare(t, valuesIn(all.String()), match[2] != "")
		}
	}
}

func (n *numbers) compare(t *testing.T, values []float64, toSemicolon bool) {
	t.Helper()
	head := cells(n.head)
	for _, row := range n.rows {
		for i, cell := range row[1:] {
			if strings.Contains(row[0]+head[i+1], "paper") || n.difference(row, i+1) {
				continue
			}
			if toSemicolon {
				cell, _, _ = strings.Cut(cell, ";")
			}
			for _, number := range printed.FindAllString(cell, -1) {
				if !among(values, number) {
					t.Errorf("%s: %s of %q is not among what was printed:\n| %s |", n.page, number, head[i+1], strings.Join(row, " | "))
				}
			}
		}
	}
}

// difference reports whether a cell of a column "a - b" is the difference of those columns of a row, as far as
// their digits show it, or a range of differences of several canaries.
func (n *numbers) difference(row []string, column int) bool {
	head := cells(n.head)
	a, b, found := strings.Cut(head[column], " - ")
	i, k := slices.Index(head, a), slices.Index(head, b)
	if !found || i < 0 || k < 0 {
		return false
	}
	return strings.Contains(row[column], " to ") || math.Abs(math.Abs(first(row[i])-first(row[k]))-first(row[column])) < 0.06
}

// first is the first number of a cell, NaN if there is none.
func first(cell string) float64 {
	x, err := strconv.ParseFloat(strings.ReplaceAll(printed.FindString(cell), ",", ""), 64)
	if err != nil {
		return math.NaN()
	}
	return x
}
