package results

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/tasks/audits/all"
)

// latexPage is a page as wide as a table may be, with room at its foot.
const latexPage = `\documentclass[10pt]{article}
\usepackage[textwidth=%dpt,textheight=600pt]{geometry}
\usepackage{booktabs}
\setlength{\parindent}{0pt}
\begin{document}
%s
\end{document}
`

// everyColumn returns a table with the columns of all audits, filled with the numbers of replicates.
func everyColumn() (header []string, rows [][]string) {
	header, cells := []string{"setting"}, []string{"by-user, FedAvg, b=10, noise multiplier 0.001"}
	for _, d := range all.Audits() {
		for _, m := range d.TableMeasures() {
			header, cells = append(header, m.Header), append(cells, "1234.5 ± 123.4")
		}
	}
	return header, [][]string{cells, cells}
}

// LaTeX sets three sorts of tables within the width of a page: those of the shipped examples, those of the
// golden files, and a table with the columns of all audits.
func TestTheTablesOfTheExamplesFitAPaperElsewhere(t *testing.T) {
	t.Parallel()
	testserver.InCheck(t, "Elsewhere")
	program, err := exec.LookPath("pdflatex")
	if err != nil {
		t.Skip(err)
	}
	var body strings.Builder
	header, rows := everyColumn()
	for _, kept := range append(keptTables(t), keptTable{header, rows}) {
		for _, table := range latexTables(kept.header, kept.rows, 1) {
			fmt.Fprintf(&body, "{\\footnotesize\\setlength{\\tabcolsep}{%dpt}%%\n%s}\n\n", latexSeparation, table)
		}
	}
	for _, name := range []string{"results", "replicates", "attacks"} {
		text := must.Get(os.ReadFile("testdata/" + name + ".latex"))(t)
		body.Write(append(text, '\n'))
	}
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "tables.tex"), fmt.Appendf(nil, latexPage, latexWidth, body.String()), 0o600))
	c := exec.CommandContext(t.Context(), program, "-interaction=nonstopmode", "-halt-on-error", "tables.tex")
	c.Dir = dir
	output, err := c.CombinedOutput()
	if err != nil || strings.Contains(string(output), "Overfull \\hbox") || !strings.Contains(string(output), "Output written on tables.pdf") {
		t.Errorf("%v\n%s", err, output)
	}
}
