package results

import (
	"slices"
	"strings"
	"unicode/utf8"

	"coalmine/internal/readable"
)

// paper is a medium of bounded width for tables, in any unit.
type paper struct {
	width, gap int              // of the medium, and between columns
	narrow     int              // maximum width of a header over narrower texts
	measure    func(string) int // returns the width of a text
}

// column is a column with its texts folded into lines: the header, and each row.
type column struct {
	index  int // in the table
	header []string
	rows   [][]string
	width  int
}

// blocks lays out a table in blocks. A block starts with the first column and continues with the columns that fit
// the width. Columns for which keep returns false are omitted.
func (p *paper) blocks(header []string, rows [][]string, keep func(i int) bool) (blocks [][]column) {
	first := p.column(header, rows, 0, max(p.width/3, p.narrow+p.narrow/3))
	block, width := []column{first}, first.width
	for i := 1; i < len(header); i++ {
		if !keep(i) {
			continue
		}
		c := p.column(header, rows, i, p.width-first.width-p.gap)
		if width+p.gap+c.width > p.width {
			blocks, block, width = append(blocks, block), []column{first}, first.width
		}
		block, width = append(block, c), width+p.gap+c.width
	}
	return append(blocks, block)
}

// column folds the texts of a column into lines of at most a width.
func (p *paper) column(header []string, rows [][]string, i, most int) column {
	c := column{index: i}
	for _, row := range rows {
		lines := p.wrap(row[i], most)
		c.rows, c.width = append(c.rows, lines), max(c.width, p.widest(lines))
	}
	c.header = p.wrap(header[i], min(most, max(c.width, p.narrow, p.widest(strings.Fields(header[i])))))
	c.width = max(c.width, p.widest(c.header))
	return c
}

func (p *paper) widest(lines []string) (width int) {
	for _, line := range lines {
		width = max(width, p.measure(line))
	}
	return width
}

// wrap folds a text into lines, at spaces if possible. It returns at least one line.
func (p *paper) wrap(text string, width int) []string {
	lines, left := []string{}, ""
	for _, word := range strings.Fields(readable.Text(text)) {
		if left != "" && p.measure(left+" "+word) <= width {
			left += " " + word
			continue
		}
		if left != "" {
			lines = append(lines, left)
		}
		for p.measure(word) > width {
			head := p.head(word, width)
			lines, word = append(lines, head), word[len(head):]
		}
		left = word
	}
	return append(lines, left)
}

// head returns the longest prefix of a word that fits, at least one character.
func (p *paper) head(word string, width int) string {
	end := 0
	for i, r := range word {
		next := i + utf8.RuneLen(r)
		if end > 0 && p.measure(word[:next]) > width {
			break
		}
		end = next
	}
	return word[:end]
}

// lineByLine returns the lines of one row, or of the header, over all columns.
func lineByLine(columns []column, folded func(*column) []string) (rows [][]string) {
	texts := make([][]string, len(columns))
	for i := range columns {
		texts[i] = folded(&columns[i])
	}
	for k := range slices.MaxFunc(texts, func(a, b []string) int { return len(a) - len(b) }) {
		line := make([]string, len(columns))
		for i, text := range texts {
			if k < len(text) {
				line[i] = text[k]
			}
		}
		rows = append(rows, line)
	}
	return rows
}
