package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"coalmine/internal/numbers"
)

// table is a CSV file: rows of named columns.
type table []map[string]string

// study has the results of one paper.
type study struct {
	folder   string
	tables   map[string]table      // by name; only tables that were read
	printed  map[string]bool       // rows of means that are already in a table
	compared map[string]comparison // by two rows, such as "table-1/r05 table-1/r01"; nil before they are read
}

// table reads NAME.csv, once. The table is empty without such a file.
func (s *study) table(name string) (table, error) {
	if rows, ok := s.tables[name]; ok {
		return rows, nil
	}
	data, err := os.ReadFile(filepath.Join(s.folder, name+".csv"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s.csv: %w", name, err)
	}
	var rows table
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, column := range lines[0] {
			row[column] = line[i]
		}
		rows = append(rows, row)
	}
	s.tables[name] = rows
	if results, ok := strings.CutSuffix(name, "-canaries"); ok {
		err = s.join(rows, results)
	}
	return rows, err
}

// perplexityOfCell is a column of canaries with the perplexity of their cell.
const perplexityOfCell = "perplexity of the cell"

func (s *study) join(canaries table, results string) error {
	cells, err := s.table(results + "-cells")
	perplexities := map[[2]string]string{}
	for _, cell := range cells {
		perplexities[[2]string{cell["row"], cell["seed"]}] = cell["perplexity"]
	}
	for _, canary := range canaries {
		canary[perplexityOfCell] = perplexities[[2]string{canary["row"], canary["seed"]}]
	}
	return err
}

// where returns the rows that meet conditions on their columns, such as "row=r01 copies=4 exposure>31".
func (rows table) where(condition string) (found table) {
	for _, row := range rows {
		if fits(row, condition) {
			found = append(found, row)
		}
	}
	return found
}

// anything is the value in "row=*".
const anything = "*"

func fits(row map[string]string, conditions string) bool {
	for condition := range strings.FieldsSeq(conditions) {
		at := strings.IndexAny(condition, "=<>")
		text, value := row[condition[:at]], condition[at+1:]
		x, known := number(text)
		limit, _ := number(value)
		switch condition[at] {
		case '=':
			known = text == value || value == anything
		case '<':
			known = known && x < limit
		default:
			known = known && x > limit
		}
		if !known {
			return false
		}
	}
	return true
}

// mean of a column over the rows that have it.
func (rows table) mean(column string) (mean float64, ok bool) {
	var values []float64
	for _, row := range rows {
		if x, known := number(row[column]); known {
			values = append(values, x)
		}
	}
	return stat.Mean(values, nil), len(values) > 0
}

// values of a column, each once, in the order of the rows.
func (rows table) values(column string) (found []string) {
	seen := map[string]bool{}
	for _, row := range rows {
		if v := row[column]; !seen[v] {
			seen[v], found = true, append(found, v)
		}
	}
	return found
}

// number is the number in a cell of a table: 1 for true, 0 for false. ok is false for an empty cell.
func number(text string) (x float64, ok bool) {
	switch text {
	case "true":
		return 1, true
	case "false":
		return 0, true
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil
}

// means returns the rows of an experiment as Markdown: the rows of paper.csv, our rows in the same order, and our
// rows on the other texts named after the table.
func (s *study) means(names []string) (string, error) {
	paper, err := s.table("paper")
	if err != nil {
		return "", err
	}
	paper = paper.where("table=" + names[0])
	head, labels, lines := "|row|paper: RS of 90|BS of 90|recall@1 %|perplexity|", make([]string, len(paper)), make([]string, len(paper))
	for i, p := range paper {
		lines[i] = fmt.Sprintf("%s|%s|%s|%s|", p["rs"], p["bs"], p["accuracy"], p["perplexity"])
	}
	for _, text := range append([]string{""}, names[1:]...) {
		rows, err := s.meansOn(names[0], text)
		if err != nil {
			return "", err
		}
		if len(rows) != len(paper) {
			return "", fmt.Errorf("table %s has %d rows on %q, and %d in paper.csv", names[0], len(rows), text, len(paper))
		}
		head += texts[text] + "RS|BS|recall@1 %|perplexity|"
		for i, row := range rows {
			labels[i] = joined(labels[i], row[0]["label"])
			lines[i] += fmt.Sprintf("%s|%s|%s|%s|", count(row, "random_sampling_memorized"), count(row, "beam_search_memorized"),
				spread(row, "recall_at_1", 100, 2), spread(row, "perplexity", 1, 1))
		}
	}
	body := head + "\n|" + strings.Repeat("---|", strings.Count(head, "|")-1) + "\n"
	for i, line := range lines {
		row := "|" + labels[i] + "|" + line + "\n"
		if !s.printed[row] {
			body += row
		}
		s.printed[row] = true
	}
	return body, nil
}

// meansOn are the means of each row of a table on a text.
func (s *study) meansOn(name, text string) (rows []table, err error) {
	means, err := s.table(strings.TrimSuffix("table-"+name+"-"+text, "-") + "-means")
	for _, row := range means.values("row") {
		rows = append(rows, means.where("row="+row))
	}
	return rows, err
}

// texts are the names of the texts of results in a header; the shipped text, the first, has no name.
var texts = map[string]string{"stackexchange": "history.meta: "}

// joined returns a label, followed by the last part of the row's label on another text if it differs: "FedAvg,
// 300 rounds / 130 rounds".
func joined(label, other string) string {
	if label == "" || label == other {
		return other
	}
	return label + " / " + other[strings.LastIndex(other, ", ")+2:]
}

// spread is "18.91 ± 1.06".
func spread(rows table, measure string, unit float64, digits int) string {
	m := rows.where("measure=" + measure)[0]
	mean, _ := number(m["mean"])
	sd, _ := number(m["sd"])
	return numbers.Decimal(unit*mean, digits) + " ± " + numbers.Decimal(unit*sd, digits)
}

// count is "9/185", over all seeds.
func count(rows table, measure string) string {
	m := rows.where("measure=" + measure)[0]
	return m["pooled_count"] + "/" + m["pooled_of"]
}

// comparedRow is a line of compared.jsonl: an element of rows in the output of coalmine compare --json.
type comparedRow struct {
	Row, Label, To string
	ToLabel        string `json:"to_label"`
	Measures       map[string]estimate
	Canaries       map[string]struct{ Difference estimate }
}

// rowName removes the paper and the digest of the run from the name of a row.
var rowName = regexp.MustCompile(`^[a-z]+-[0-9]{4}-(.+?)(?:-small)?-[0-9a-f.]+/`)

// readCompared reads compared*.jsonl.
func (s *study) readCompared() error {
	s.compared = map[string]comparison{}
	paths, err := filepath.Glob(filepath.Join(s.folder, "compared*.jsonl"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(data) {
			var c comparedRow
			if err := json.Unmarshal(line, &c); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			name := rowName.ReplaceAllString(c.Row, "$1/") + " " + rowName.ReplaceAllString(c.To, "$1/")
			s.compared[name] = c.comparison()
		}
	}
	return nil
}

func (c *comparedRow) comparison() comparison {
	measures := c.Measures
	for name, canaries := range c.Canaries {
		measures[name] = canaries.Difference
	}
	return comparison{label: c.Label, toLabel: c.ToLabel, measures: measures}
}
