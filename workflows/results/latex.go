package results

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
)

// latexWidth is the width of LaTeX's tables in points: 169 mm, the width of a page with two columns.
const latexWidth = 480

// latexPaper is a page of a paper in small type.
var latexPaper = paper{width: latexWidth, gap: 2 * latexSeparation, narrow: 50, measure: latexPoints}

// latexSeparation is the white space on each side of a column.
const latexSeparation = 3

// latexPoints returns an upper bound of the width of a text in points, in Roman type of 8 points.
func latexPoints(text string) int {
	tenths := 0
	for _, r := range text {
		switch {
		case strings.ContainsRune(" .,:;!'()[]ijl", r):
			tenths += 34
		case r != 'm' && r != 'w' && unicode.In(r, unicode.Ll, unicode.Nd):
			tenths += 48
		case r == 'M' || r == 'W':
			tenths += 88
		default:
			tenths += 72
		}
	}
	return (tenths + 9) / 10
}

// writeLaTeX writes booktabs tables with the table's notes below. Rows of replicates have compact numbers.
func (v *view) writeLaTeX(w io.Writer) error {
	v.compact = true
	table := v.table()
	var b strings.Builder
	fmt.Fprintf(&b, "%% Run %s, experiment %s. Needs \\usepackage{booktabs}.\n", v.Run, readable.Text(v.Experiment))
	if len(v.rows) > 0 {
		b.WriteString("% Numbers are means and standard deviations over seeds; differences have 95% intervals.\n")
	}
	fmt.Fprintf(&b, "%% A table is at most %d points wide; --columns chooses columns.\n", latexWidth)
	for i, header := range table.Header {
		if count := table.of[header]; count != "" {
			table.Header[i] += " (of " + count + ")"
		}
	}
	tables := latexTables(table.Header, table.texts(), 1)
	if d := table.Differences; d != nil {
		tables = append(tables, latexTables(d.Header, d.texts(), 2)...)
	}
	for _, attacks := range v.attackTables() {
		tables = append(tables, latexTables(attacks.Header, attacks.Rows, attacks.Texts)...)
	}
	fmt.Fprintf(&b, "{\\footnotesize\\setlength{\\tabcolsep}{%dpt}%%\n%s}\n", latexSeparation, strings.Join(tables, "\\par\\medskip\n"))
	notes := table.NotesOnce
	if table.Best != "" {
		notes = append([]string{table.Best}, notes...)
	}
	for _, note := range notes {
		fmt.Fprintf(&b, "\\par{\\footnotesize %s}\n", readable.LaTeX(note))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// latexTables splits a table into parts that fit the width. The first texts columns are aligned left; the
// others hold numbers and are aligned right.
func latexTables(header []string, rows [][]string, texts int) (tables []string) {
	all := func(int) bool { return true }
	for _, block := range latexPaper.blocks(header, rows, all) {
		var b strings.Builder
		b.WriteString("\\begin{tabular}{")
		for _, c := range block {
			if c.index < texts {
				b.WriteByte('l')
			} else {
				b.WriteByte('r')
			}
		}
		b.WriteString("}\n\\toprule\n")
		writeLaTeXRow(&b, block, func(c *column) []string { return c.header })
		b.WriteString("\\midrule\n")
		for k := range rows {
			writeLaTeXRow(&b, block, func(c *column) []string { return c.rows[k] })
		}
		b.WriteString("\\bottomrule\n\\end{tabular}\n")
		tables = append(tables, b.String())
	}
	return tables
}

// signPattern is a sign before a number.
var signPattern = regexp.MustCompile(`(^|[ (])([+-][\d.]+)`)

func writeLaTeXRow(b *strings.Builder, columns []column, texts func(*column) []string) {
	for _, line := range lineByLine(columns, texts) {
		for i, text := range line {
			if i > 0 {
				b.WriteString(" & ")
			}
			b.WriteString(signPattern.ReplaceAllString(readable.LaTeX(text), "$1$$$2$$"))
		}
		b.WriteString(" \\\\\n")
	}
}

// Choose reduces tables for people to the columns with the given headers and those that name the rows. It
// returns an error if no table has one of the columns.
func (r *Results) Choose(columns []string) error {
	r.chosen = nil
	t, err := r.Table()
	if err != nil || len(columns) == 0 {
		return err
	}
	known := slices.Clone(t.Header)
	if t.Differences != nil {
		known = append(known, t.Differences.Header...)
	}
	for _, column := range columns {
		if !slices.Contains(known, column) {
			return fmt.Errorf("column %.60q: expected headers of the table: %s", column, strings.Join(known, ", "))
		}
	}
	r.chosen = columns
	return nil
}

// naming lists the headers of columns that name the rows of a table.
var naming = []string{"setting", "compared with", "seeds"}

// keep removes the columns that are not chosen.
func (t *Table) keep(columns []string) {
	if t == nil || len(columns) == 0 {
		return
	}
	for c := len(t.Header) - 1; c >= 0; c-- {
		if slices.Contains(columns, t.Header[c]) || slices.Contains(naming, t.Header[c]) {
			continue
		}
		t.Header, t.Abouts = slices.Delete(t.Header, c, c+1), slices.Delete(t.Abouts, c, c+1)
		for i := range t.Rows {
			t.Rows[i].Texts = slices.Delete(t.Rows[i].Texts, c, c+1)
		}
	}
	t.Differences.keep(columns)
}

// paper is a medium of bounded width for tables. Widths may be in any unit.
type paper struct {
	width, gap int              // of the medium, and between columns
	narrow     int              // maximum width to which a header may widen a column of narrower texts
	measure    func(string) int // returns the width of a text
}

// column is a column with the texts of its header and of each row folded into lines.
type column struct {
	index  int // in the table
	header []string
	rows   [][]string
	width  int
}

// blocks lays out a table in blocks. Each block has the first column and the next columns that fit the
// width. Columns for which keep returns false are omitted.
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

// column folds the texts of column i into lines of at most the given width.
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

// Wrap folds a text into lines of at most width bytes, at spaces if possible. It returns at least one line.
func Wrap(text string, width int) []string {
	bytes := paper{measure: func(text string) int { return len(text) }}
	return bytes.wrap(text, width)
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

// head returns the longest prefix of a word that fits, with at least one character.
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

// lineByLine returns the lines of one row, or of the header, across all columns.
func lineByLine(columns []column, folded func(*column) []string) (rows [][]string) {
	texts := lists.Map(columns, func(c column) []string { return folded(&c) })
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
