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
	table := v.table()
	var b strings.Builder
	fmt.Fprintf(&b, "%% Run %s, experiment %s. Needs \\usepackage{booktabs}.\n", v.Run, readable.Text(v.Experiment))
	if len(v.rows) > 0 {
		b.WriteString("% Numbers are means and standard deviations over seeds; differences have 95% intervals.\n% --columns chooses columns for a narrow page.\n")
		b.WriteString("{\\footnotesize\\setlength{\\tabcolsep}{3pt}%\n")
		table.compact()
	}
	table.writeTabular(&b)
	if d := table.Differences; d != nil {
		b.WriteString("\n\\medskip\n")
		d.compact()
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

// Texts of tables of replicates: "5.3 ± 0.6 of 12 (28-62%)" and "-1.7 (-4.5 to +1.2), 0:5, p 0.062".
var (
	spreadPattern     = regexp.MustCompile(`^([\d.]+ ± [\d.]+)(?: of (\d+))?(?: \(.*\))?$`)
	differencePattern = regexp.MustCompile(`^([+-][\d.]+)(?: \((\S+) to (\S+)\))?(?:, .*)?$`)
)

// compact shortens the numbers of replicates to a mean with its standard deviation, or with its
// interval. What they are of stands in the header where it is the same in all rows.
func (t *Table) compact() {
	for column := range t.Header {
		var of []string
		for i := range t.Rows {
			if m := spreadPattern.FindStringSubmatch(t.Rows[i].Texts[column]); m != nil && !slices.Contains(of, m[2]) {
				of = append(of, m[2])
			}
		}
		if len(of) == 1 && of[0] != "" {
			t.Header[column] += " (of " + of[0] + ")"
		}
		for i := range t.Rows {
			t.Rows[i].Texts[column] = compactText(t.Rows[i].Texts[column], len(of) > 1)
		}
	}
}

func compactText(text string, withOf bool) string {
	if m := spreadPattern.FindStringSubmatch(text); m != nil {
		if withOf && m[2] != "" {
			return m[1] + " of " + m[2]
		}
		return m[1]
	}
	if m := differencePattern.FindStringSubmatch(text); m != nil {
		if m[2] == "" {
			return m[1]
		}
		return fmt.Sprintf("%s (%s, %s)", m[1], m[2], m[3])
	}
	return text
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
		t.Header = slices.Delete(t.Header, c, c+1)
		for i := range t.Rows {
			t.Rows[i].Texts = slices.Delete(t.Rows[i].Texts, c, c+1)
		}
	}
	t.Differences.keep(columns)
}
