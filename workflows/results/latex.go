package results

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"coalmine/internal/readable"
)

// writeLaTeX writes booktabs tables, and the notes of the table below them. Rows of replicates
// have compact numbers.
func (v *view) writeLaTeX(w io.Writer) error {
	v.compact = true
	table := v.table()
	var b strings.Builder
	fmt.Fprintf(&b, "%% Run %s, experiment %s. Needs \\usepackage{booktabs}.\n", v.Run, readable.Text(v.Experiment))
	if len(v.rows) > 0 {
		b.WriteString("% Numbers are means and standard deviations over seeds; differences have 95% intervals.\n% --columns chooses columns for a narrow page.\n")
		b.WriteString("{\\footnotesize\\setlength{\\tabcolsep}{3pt}%\n")
	}
	for i, header := range table.Header {
		if of := table.of[header]; of != "" {
			table.Header[i] += " (of " + of + ")"
		}
	}
	table.writeTabular(&b)
	if d := table.Differences; d != nil {
		b.WriteString("\n\\medskip\n")
		d.writeTabular(&b)
	}
	if len(v.rows) > 0 {
		b.WriteString("}\n")
	}
	if attacks := v.attackTable(); attacks != nil {
		b.WriteString("\n" + attacks.latex())
	}
	for _, note := range table.NotesOnce {
		fmt.Fprintf(&b, "\\par{\\footnotesize %s}\n", readable.LaTeX(note))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) writeTabular(b *strings.Builder) {
	fmt.Fprintf(b, "\\begin{tabular}{l%s}\n\\toprule\n", strings.Repeat("r", len(t.Header)-1))
	writeLaTeXRow(b, t.Header)
	b.WriteString("\\midrule\n")
	for _, row := range t.Rows {
		writeLaTeXRow(b, row.Texts)
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n")
}

// signPattern is a sign before a number.
var signPattern = regexp.MustCompile(`(^|[ (])([+-][\d.]+)`)

func writeLaTeXRow(b *strings.Builder, row []string) {
	for i, text := range row {
		if i > 0 {
			b.WriteString(" & ")
		}
		text = strings.ReplaceAll(readable.LaTeX(text), "±", `$\pm$`)
		b.WriteString(signPattern.ReplaceAllString(text, "$1$$$2$$"))
	}
	b.WriteString(" \\\\\n")
}

// Choose leaves the tables of people with some columns, by their headers, beside those that name
// the rows. It is an error if no table has one of them.
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

// naming are the headers of columns that name the rows of a table.
var naming = []string{"setting", "compared with", "seeds"}

// keep leaves out the columns that are not chosen.
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
