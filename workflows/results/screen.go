package results

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"coalmine/internal/readable"
	"coalmine/tasks/audits"
)

// Screen is a terminal that shows tables. A nil Screen is a file, whose tables are as wide as they need.
type Screen struct {
	// Width is the number of columns, at least 40.
	Width int
	// Color reports whether the terminal shows colors.
	Color bool
	// Notes has all notes shown, not only those that a table needs to be read.
	Notes bool
}

// Escape sequences of terminals.
const (
	bold, red, plain = "\x1b[1m", "\x1b[31m", "\x1b[0m"
)

// WriteScreen writes the table with such rows for a terminal: columns beyond its width stand below, columns
// with one text in all rows in a line, and notes only if they report a failure or explain a mark.
func (r *Results) WriteScreen(w io.Writer, rows Rows, s *Screen) error {
	v, err := r.view()
	if err != nil {
		return err
	}
	if rows != Cells {
		t, err := flatTables[rows](v)
		if err != nil {
			return err
		}
		return s.writeListed(t, w)
	}
	table := v.table()
	var b strings.Builder
	s.table(&b, table.Header, table.texts())
	if d := table.Differences; d != nil {
		b.WriteString("\nEach setting less its baseline, seed by seed:\n")
		header := slices.Clone(d.Header)
		header[1] = "baseline"
		s.table(&b, header, d.texts())
	}
	s.notes(&b, v, table.NotesOnce)
	_, err = io.WriteString(w, b.String())
	return err
}

// notes writes the notes, or those that cannot wait and the number of the others.
func (s *Screen) notes(b *strings.Builder, v *view, all []string) {
	shown := all
	if !s.Notes {
		shown = v.once(slices.DeleteFunc(v.allNotes(), func(n note) bool {
			return !strings.HasPrefix(n.text, " failed") && !strings.HasPrefix(n.text, ": "+audits.Mark)
		}))
	}
	for _, text := range shown {
		s.paragraph(b, text)
	}
	if more := len(all) - len(shown); more > 0 {
		s.paragraph(b, fmt.Sprintf("%s more: coalmine results %s --notes", readable.Count(more, "note"), v.Run))
	}
}

func (s *Screen) paragraph(b *strings.Builder, text string) {
	for _, line := range wrap(text, s.Width) {
		b.WriteString(line + "\n")
	}
}

// screenColumn is a column with its texts in lines: that of the header, and those of the rows.
type screenColumn struct {
	header []string
	rows   [][]string
	width  int
}

// table writes rows with the columns that fit the width side by side, and the others below them,
// each time behind the first column.
func (s *Screen) table(b *strings.Builder, header []string, rows [][]string) {
	if s == nil {
		writeAligned(b, header, rows)
		return
	}
	first := s.column(header, rows, 0, max(16, s.Width/3))
	block, width, same := []screenColumn{first}, first.width, []string{}
	for i := 1; i < len(header); i++ {
		if text, alike := sameInAll(rows, i); alike {
			same = append(same, header[i]+" "+text)
			continue
		}
		c := s.column(header, rows, i, s.Width-first.width-2)
		if width+2+c.width > s.Width {
			s.block(b, block)
			b.WriteByte('\n')
			block, width = []screenColumn{first}, first.width
		}
		block, width = append(block, c), width+2+c.width
	}
	s.block(b, block)
	if len(same) > 0 {
		s.paragraph(b, "in all rows: "+strings.Join(same, "; "))
	}
}

// sameInAll returns the text of a column that has one text in two rows or more.
func sameInAll(rows [][]string, i int) (string, bool) {
	if len(rows) < 2 {
		return "", false
	}
	for _, row := range rows {
		if row[i] != rows[0][i] {
			return "", false
		}
	}
	return rows[0][i], true
}

// headerWidth is how wide a header may be beside narrower texts.
const headerWidth = 12

// column folds the texts of a column into lines of at most width columns of the screen.
func (s *Screen) column(header []string, rows [][]string, i, most int) (c screenColumn) {
	for _, row := range rows {
		lines := wrap(row[i], most)
		c.rows, c.width = append(c.rows, lines), max(c.width, widest(lines))
	}
	c.header = wrap(header[i], min(most, max(c.width, headerWidth, widest(strings.Fields(header[i])))))
	c.width = max(c.width, widest(c.header))
	return c
}

// block writes columns side by side, with a rule below the header.
func (s *Screen) block(b *strings.Builder, columns []screenColumn) {
	header, rule := make([][]string, len(columns)), make([][]string, len(columns))
	for i, c := range columns {
		header[i], rule[i] = c.header, []string{strings.Repeat("-", c.width)}
	}
	s.row(b, columns, header, bold)
	s.row(b, columns, rule, "")
	for k := range columns[0].rows {
		row := make([][]string, len(columns))
		for i, c := range columns {
			row[i] = c.rows[k]
		}
		s.row(b, columns, row, "")
	}
}

// row writes texts of several lines side by side.
func (s *Screen) row(b *strings.Builder, columns []screenColumn, texts [][]string, style string) {
	for line := range slices.MaxFunc(texts, func(a, b []string) int { return len(a) - len(b) }) {
		var written strings.Builder
		for i, text := range texts {
			part := ""
			if line < len(text) {
				part = text[line]
			}
			padding := columns[i].width - runewidth.StringWidth(part) + 2
			written.WriteString(s.styled(part, style) + strings.Repeat(" ", padding))
		}
		b.WriteString(strings.TrimRight(written.String(), " ") + "\n")
	}
}

// styled returns a text in a style, that of failures if it has none of its own.
func (s *Screen) styled(text, style string) string {
	if text == "failed" && style == "" {
		style = red
	}
	if !s.Color || style == "" || text == "" {
		return text
	}
	return style + text + plain
}

func widest(lines []string) (width int) {
	for _, line := range lines {
		width = max(width, runewidth.StringWidth(line))
	}
	return width
}

// wrap folds a text into lines, at spaces where it can. It has one line at least.
func wrap(text string, width int) []string {
	lines, left := []string{}, ""
	for _, word := range strings.Fields(readable.Text(text)) {
		if left != "" && runewidth.StringWidth(left)+1+runewidth.StringWidth(word) <= width {
			left += " " + word
			continue
		}
		if left != "" {
			lines = append(lines, left)
		}
		for runewidth.StringWidth(word) > width {
			head := runewidth.Truncate(word, width, "")
			lines, word = append(lines, head), word[len(head):]
		}
		left = word
	}
	return append(lines, left)
}
