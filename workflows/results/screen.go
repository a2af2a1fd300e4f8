package results

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"coalmine/internal/readable"
)

// Terminal is a terminal that shows tables. A nil Terminal stands for a file, with tables of unlimited width.
type Terminal struct {
	// Width is the number of columns, at least 40.
	Width int
	// Color reports whether the terminal shows colors.
	Color bool
	// Notes shows all notes, not only those needed to read a table.
	Notes bool
}

// Escape sequences of terminals.
const (
	bold, red, plain = "\x1b[1m", "\x1b[31m", "\x1b[0m"
)

// WriteScreen writes the table with such rows for a terminal. Columns beyond its width follow below,
// columns with one text in all rows take one line, and only notes that report a failure or explain a mark
// appear, unless s.Notes is set.
func (r *Results) WriteScreen(w io.Writer, rows Rows, s *Terminal) error {
	v, err := r.view()
	if err != nil {
		return err
	}
	if rows != Cells {
		t, err := v.flat(rows)
		if err != nil {
			return err
		}
		return s.writeListed(t, w)
	}
	return s.write(v, w)
}

// write writes the table of cells, its differences and its notes.
func (s *Terminal) write(v *view, w io.Writer) error {
	table := v.table()
	var b strings.Builder
	s.table(&b, table.Header, table.texts())
	if spreads := table.spreads(); spreads != "" {
		s.paragraph(&b, spreads)
	}
	if d := table.Differences; d != nil {
		b.WriteByte('\n')
		header := slices.Clone(d.Header)
		if s != nil {
			b.WriteString("Each setting minus its baseline, seed by seed:\n")
			header[1] = "baseline"
		}
		s.table(&b, header, d.texts())
	}
	if table.Best != "" {
		s.paragraph(&b, table.Best)
	}
	s.notes(&b, v, table.NotesOnce)
	_, err := io.WriteString(w, b.String())
	return err
}

// notes writes all notes, or the necessary ones and the number of the others.
func (s *Terminal) notes(b *strings.Builder, v *view, all []string) {
	shown := all
	if s != nil && !s.Notes {
		shown = v.warnings()
	}
	for _, text := range shown {
		s.paragraph(b, text)
	}
	if more := len(all) - len(shown); more > 0 {
		s.paragraph(b, fmt.Sprintf("%s more: coalmine results %s --notes", readable.Count(more, "note"), v.Run))
	}
}

// paragraph writes a text. It folds the text for a terminal.
func (s *Terminal) paragraph(b *strings.Builder, text string) {
	if s == nil {
		b.WriteString(text + "\n")
		return
	}
	for _, line := range s.paper().wrap(text, s.Width) {
		b.WriteString(line + "\n")
	}
}

// table writes the columns that fit the width side by side, and the others in blocks below, each with the
// first column.
func (s *Terminal) table(b *strings.Builder, header []string, rows [][]string) {
	if s == nil {
		writeAligned(b, header, rows)
		return
	}
	var same []string
	differs := func(i int) bool {
		text, alike := sameInAll(rows, i)
		if alike && i > 0 {
			same = append(same, header[i]+" "+text)
		}
		return !alike || i == 0
	}
	for i, block := range s.paper().blocks(header, rows, differs) {
		if i > 0 {
			b.WriteByte('\n')
		}
		s.block(b, block)
	}
	if len(same) > 0 {
		s.paragraph(b, "in all rows: "+strings.Join(same, "; "))
	}
}

// paper returns the screen as a medium for tables.
func (s *Terminal) paper() *paper {
	return &paper{width: s.Width, gap: 2, narrow: 12, measure: runewidth.StringWidth}
}

// sameInAll returns the text of a column if at least two rows exist and all have this text.
func sameInAll(rows [][]string, i int) (string, bool) {
	if len(rows) < 2 || slices.ContainsFunc(rows, func(row []string) bool { return row[i] != rows[0][i] }) {
		return "", false
	}
	return rows[0][i], true
}

// block writes columns side by side, with a rule below the header.
func (s *Terminal) block(b *strings.Builder, columns []column) {
	s.lines(b, columns, func(c *column) []string { return c.header }, bold)
	s.lines(b, columns, func(c *column) []string { return []string{strings.Repeat("-", c.width)} }, "")
	for k := range columns[0].rows {
		s.lines(b, columns, func(c *column) []string { return c.rows[k] }, "")
	}
}

// lines writes the texts of a row side by side.
func (s *Terminal) lines(b *strings.Builder, columns []column, folded func(*column) []string, style string) {
	for _, line := range lineByLine(columns, folded) {
		var written strings.Builder
		for i, part := range line {
			padding := columns[i].width - runewidth.StringWidth(part) + 2
			written.WriteString(s.styled(part, style) + strings.Repeat(" ", padding))
		}
		b.WriteString(strings.TrimRight(written.String(), " ") + "\n")
	}
}

// styled returns a text in a style. A failure without a style gets that of failures.
func (s *Terminal) styled(text, style string) string {
	if text == "failed" && style == "" {
		style = red
	}
	if !s.Color || style == "" || text == "" {
		return text
	}
	return style + text + plain
}
