package docs

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"coalmine/internal/must"
)

// kept is the comment before a table whose numbers are those of its sources, and how they are compared:
//
//	numbers of SOURCE..., CLAUSE, ...
//
// A source is a file with the output of commands, of which "FILE?column=value" takes some rows, or
// "account", the commands beside the table. The clauses are
//
//	means by COLUMN...        of rows of CSV that are equal in these columns the means and counts are numbers, too
//	medians by COLUMN...      and so are the medians
//	deviations by COLUMN...   and so are the standard deviations
//	differences of COLUMN...  of a row of CSV the differences of these columns are numbers, too
//	shares of COLUMN...       and so are the shares that these columns are of those of the first row
//	in bits                   and so are the numbers divided by log 2
//	one COLUMN a row          rows of CSV with one value in this column have all numbers of a row
//	one command a row         the output of one command has all numbers of a row
//	one line a cell           one line of text, or one row of CSV, has all numbers of a cell up to a semicolon;
//	                          numbers after it belong to other seeds, and to their lines
var kept = regexp.MustCompile(`^numbers of (.*)$`)

var (
	// elsewhere is the comment before a table that a test of another kind compares.
	elsewhere = regexp.MustCompile(`^(?:table .*: made of results|compared by (Test\w+)|of the paper)$`)
	printed   = regexp.MustCompile(`(^|[\s(*~=|])?([-+])?([0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)`)
	code      = regexp.MustCompile("`[^`]*`")
	accounts  = regexp.MustCompile(`(?m)^ *coalmine account .*$`)
	// ofPaper is the name of a row or a column that has the numbers of a paper.
	ofPaper = regexp.MustCompile(`\bpaper\b`)
)

// amounts are the numbers of a text, as written. A minus sign is one only after a space or the like.
func amounts(text string) (found []string) {
	for _, match := range printed.FindAllStringSubmatchIndex(text, -1) {
		number := text[match[6]:match[7]]
		if match[4] >= 0 && text[match[4]] == '-' && (match[2] >= 0 || match[0] == 0) {
			number = "-" + number
		}
		found = append(found, number)
	}
	return found
}

func amount(text string) float64 {
	x, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		return math.NaN()
	}
	return x
}

func amountsIn(text string) (found []float64) {
	for _, number := range amounts(text) {
		found = append(found, amount(number))
	}
	return found
}

// among reports whether a number is one of the values, or a hundred times it if the cell is in percent, to its digits.
func among(values []float64, text string, percent bool) bool {
	mantissa, exponent, _ := strings.Cut(text, "e")
	_, decimals, _ := strings.Cut(mantissa, ".")
	power, _ := strconv.Atoi(exponent)
	half, x := 0.50001*math.Pow10(power-len(decimals)), amount(text)
	return slices.ContainsFunc(values, func(v float64) bool {
		return math.Abs(v-x) <= half || percent && math.Abs(100*v-x) <= half
	})
}

// sources are the files in which the numbers of a table are found.
type sources struct {
	alternatives []source    // one of which has the numbers of a row
	commands     [][]float64 // the numbers of each, of which one has those of a row that no file has
	lineACell    bool
}

// source are tables, or those rows of them that are equal in a column.
type source struct {
	tables []records
	lines  [][]float64 // the numbers of each row
	values []float64   // all of them, and those that are computed
}

// readSources reads those that a marker names. ok is false if it is of another kind.
func (n *numbers) readSources(t *testing.T) (s sources, ok bool) {
	t.Helper()
	match := kept.FindStringSubmatch(n.marker)
	if match == nil {
		return s, false
	}
	clauses := strings.Split(match[1], ", ")
	var all source
	for _, name := range strings.Fields(clauses[0]) {
		if name == "account" {
			for _, line := range accounts.FindAllString(n.around, -1) {
				s.commands = append(s.commands, amountsIn(line))
			}
			continue
		}
		name, condition, _ := strings.Cut(name, "?")
		data := must.Get(os.ReadFile(filepath.Join(root(t), filepath.Dir(n.page), name)))(t)
		for _, table := range tablesIn(t, name, string(data)) {
			all.tables = append(all.tables, table.where(condition).widened(clauses[1:]))
		}
	}
	s.alternatives = []source{all}
	for _, clause := range clauses[1:] {
		words := strings.Fields(clause)
		switch {
		case clause == "one line a cell":
			s.lineACell = true
		case words[0] == "one":
			s.alternatives = all.by(words[1])
		case widening[words[0]] == nil && computed[words[0]] == nil:
			t.Fatalf("%s: %q has an unknown clause %q", n.page, n.marker, clause)
		}
	}
	for i := range s.alternatives {
		s.alternatives[i].compute(clauses[1:])
	}
	return s, true
}

// by are the rows of the tables by the values of a column. A table without it is part of all. By command they are
// single tables.
func (s *source) by(column string) (found []source) {
	var values []string
	if column == "command" {
		for _, table := range s.tables {
			found = append(found, source{tables: []records{table}})
		}
		return found
	}
	for _, table := range s.tables {
		values = append(values, table.column(column)...)
	}
	slices.Sort(values)
	for _, value := range slices.Compact(values) {
		var part source
		for _, table := range s.tables {
			part.tables = append(part.tables, table.where(column+"="+value))
		}
		found = append(found, part)
	}
	return found
}

// widening are the clauses that add numbers to each row of a table, of some of its columns and of the first row.
var widening = map[string]func(values, first []float64) []float64{
	"differences": func(values, _ []float64) (found []float64) {
		for _, a := range values {
			for _, b := range values {
				found = append(found, a-b)
			}
		}
		return found
	},
	"shares": func(values, first []float64) (found []float64) {
		for i, x := range values {
			found = append(found, x/first[i])
		}
		return found
	},
	"in": func(values, _ []float64) (found []float64) {
		for _, x := range values {
			found = append(found, x/math.Ln2)
		}
		return found
	},
}

// computed are the clauses that add numbers of groups of rows.
var computed = map[string]func(groups [][]float64) []float64{"means": means, "medians": medians, "deviations": deviations}

func (s *source) compute(clauses []string) {
	for _, table := range s.tables {
		s.lines = append(s.lines, table.lines()...)
		for _, clause := range clauses {
			words := strings.Fields(clause)
			if of := computed[words[0]]; of != nil {
				s.values = append(s.values, of(table.groups(words[2:]))...)
			}
		}
	}
	s.values = slices.Concat(append(s.lines, s.values)...)
}

// records are the rows of a CSV.
type records struct {
	columns []string
	rows    [][]string
}

// text is the column of output that is no CSV.
const text = "text"

// tablesIn are those of a kept file: all of NAME.csv, and the output of commands with "--format csv" unless awk takes a
// field of it. Other output is a table of one column.
func tablesIn(t *testing.T, name, data string) (tables []records) {
	t.Helper()
	if filepath.Ext(name) == ".csv" {
		return []records{parse(t, name, data)}
	}
	for _, block := range strings.Split("\n"+data, "\n$ ")[1:] {
		command, output, _ := strings.Cut(block, "\n")
		if strings.Contains(command, "--format csv") && !strings.Contains(command, "| awk") {
			tables = append(tables, parse(t, name, output))
			continue
		}
		lines := records{columns: []string{text}}
		for line := range strings.Lines(output) {
			lines.rows = append(lines.rows, []string{line})
		}
		tables = append(tables, lines)
	}
	return tables
}

func parse(t *testing.T, name, data string) records {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(data)).ReadAll()
	if err != nil || len(lines) < 2 {
		t.Fatalf("%s: a CSV of %d rows: %v", name, len(lines), err)
	}
	return records{lines[0], lines[1:]}
}

// where keeps the rows in which a column has a value, "column=value", or a lesser one, "column<value"; all, if there
// is no such column.
func (r records) where(condition string) records {
	at := max(strings.IndexAny(condition, "=<"), 0)
	if i := slices.Index(r.columns, condition[:at]); i >= 0 {
		value := condition[at+1:]
		r.rows = slices.DeleteFunc(slices.Clone(r.rows), func(row []string) bool {
			return condition[at] == '=' && row[i] != value || condition[at] == '<' && amount(row[i]) >= amount(value)
		})
	}
	return r
}

// widened adds the numbers that clauses make of each row as columns.
func (r records) widened(clauses []string) records {
	for _, clause := range clauses {
		words := strings.Fields(clause)
		of := widening[words[0]]
		if of == nil {
			continue
		}
		names := words[2:]
		if clause == "in bits" {
			names = []string{text}
		}
		var first []float64
		for i, row := range r.rows {
			var values []float64
			for k, name := range r.columns {
				if slices.Contains(names, name) {
					values = append(values, amount(strings.TrimSpace(row[k])))
				}
			}
			if i == 0 {
				first = values
			}
			for _, x := range of(values, first) {
				r.rows[i] = append(r.rows[i], fmt.Sprint(x))
			}
		}
	}
	return r
}

// lines are the numbers of each row. In CSV a cell is a number or a text.
func (r records) lines() (found [][]float64) {
	for _, row := range r.rows {
		line := []float64{}
		for i, cell := range row {
			if x := amount(cell); !math.IsNaN(x) {
				line = append(line, x)
			} else if i == 0 && r.columns[0] == text {
				line = append(line, amountsIn(cell)...)
			}
		}
		found = append(found, line)
	}
	return found
}

func (r records) column(name string) (values []string) {
	if i := slices.Index(r.columns, name); i >= 0 {
		for _, row := range r.rows {
			values = append(values, row[i])
		}
	}
	return values
}

// groups are the numbers of each column, sorted, of rows that are equal in some columns. True is 1.
func (r records) groups(by []string) (found [][]float64) {
	columns := map[string][]float64{}
	for _, row := range r.rows {
		key := ""
		for i, name := range r.columns {
			if slices.Contains(by, name) {
				key += row[i] + "\n"
			}
		}
		for i, cell := range row {
			x := amount(cell)
			if cell == "true" || cell == "false" {
				x = float64(len("false") - len(cell))
			}
			if name := fmt.Sprint(i, key); !math.IsNaN(x) {
				columns[name] = append(columns[name], x)
			}
		}
	}
	for _, group := range columns {
		slices.Sort(group)
		found = append(found, group)
	}
	return found
}

// means are those of groups, how many there are, and how many are true.
func means(groups [][]float64) (found []float64) {
	for _, group := range groups {
		mean, n := stat.Mean(group, nil), float64(len(group))
		found = append(found, mean, n)
		if group[0] >= 0 && group[len(group)-1] <= 1 {
			found = append(found, math.Round(mean*n))
		}
	}
	return found
}

func medians(groups [][]float64) (found []float64) {
	for _, group := range groups {
		found = append(found, (group[len(group)/2]+group[(len(group)-1)/2])/2)
	}
	return found
}

func deviations(groups [][]float64) (found []float64) {
	for _, group := range groups {
		found = append(found, stat.StdDev(group, nil))
	}
	return found
}

// missing returns the numbers of a row that no source has: of the alternative that lacks the fewest. The first cell
// names the row.
func (s *sources) missing(head, row []string) (found []string) {
	for i := range s.alternatives {
		if lost := s.missingIn(&s.alternatives[i], head, row); i == 0 || len(lost) < len(found) {
			found = lost
		}
	}
	if slices.ContainsFunc(s.commands, func(command []float64) bool { return lacking(command, found, false) == nil }) {
		return nil
	}
	return found
}

func (s *sources) missingIn(from *source, head, row []string) (found []string) {
	for i := 1; i < len(row); i++ {
		cell := s.compared(head, row, i)
		named := row[0] + head[i] + cell
		percent := strings.Contains(named, "%") || strings.Contains(named, "AP")
		lost := lacking(from.values, amounts(cell), percent)
		ofLine, _, _ := strings.Cut(cell, ";")
		if s.lineACell && !slices.ContainsFunc(from.lines, func(line []float64) bool { return lacking(line, amounts(ofLine), percent) == nil }) {
			lost = amounts(cell)
		}
		found = append(found, lost...)
	}
	return found
}

// compared is the part of a cell that is compared.
func (s *sources) compared(head, row []string, i int) string {
	if ofPaper.MatchString(row[0] + " " + head[i]) {
		return ""
	}
	return code.ReplaceAllStringFunc(row[i], func(span string) string { return strings.Repeat(" ", len(span)) })
}

// lacking are the numbers that are not among the values.
func lacking(values []float64, numbers []string, percent bool) (found []string) {
	for _, number := range numbers {
		if !among(values, number, percent) {
			found = append(found, number)
		}
	}
	return found
}

func TestTableNumbersMatchSources(t *testing.T) {
	t.Parallel()
	for _, table := range allTables(t) {
		s, ok := table.readSources(t)
		if !ok {
			continue
		}
		for _, row := range table.rows {
			if lost := s.missing(cells(table.head), row); lost != nil {
				t.Errorf("%s: %q is not among the %s:\n| %s |", table.page, lost, table.marker, strings.Join(row, " | "))
			}
		}
	}
}

func TestEveryTableIsCompared(t *testing.T) {
	t.Parallel()
	for _, table := range allTables(t) {
		if !kept.MatchString(table.marker) && !elsewhere.MatchString(table.marker) {
			t.Errorf("%s: compare the numbers of this table, as the comment of kept says:\n%q", table.page, table.head)
		}
	}
}

// A number that is off by one in its last digit is noticed, if no other number of the sources happens to be equal.
func TestWrongDigitsOfTablesAreNoticed(t *testing.T) {
	t.Parallel()
	all, noticed := 0, 0
	for _, table := range allTables(t) {
		s, ok := table.readSources(t)
		if !ok {
			continue
		}
		n, found := 0, 0
		for _, row := range table.rows {
			for _, wrong := range s.wrong(cells(table.head), row) {
				n++
				if len(s.missing(cells(table.head), wrong)) > 0 {
					found++
				}
			}
		}
		t.Logf("%s: %d of %d wrong digits are noticed: %s", table.page, found, n, table.head)
		if 2*found < n || n == 0 {
			t.Errorf("%s: only %d of %d wrong digits are noticed in\n%s", table.page, found, n, table.head)
		}
		all, noticed = all+n, noticed+found
	}
	t.Logf("%d of %d wrong digits are noticed", noticed, all)
}

// wrong are copies of a row, each with another number that is off by one in its last digit.
func (s *sources) wrong(head, row []string) (copies [][]string) {
	for i := 1; i < len(row); i++ {
		cell := s.compared(head, row, i)
		for _, at := range printed.FindAllStringSubmatchIndex(cell, -1) {
			mantissa, _, _ := strings.Cut(cell[at[6]:at[7]], "e")
			last := at[6] + len(mantissa) - 1
			changed := slices.Clone(row)
			changed[i] = fmt.Sprintf("%s%d%s", cell[:last], (cell[last]-'0'+1)%10, cell[last+1:])
			copies = append(copies, changed)
		}
	}
	return copies
}
