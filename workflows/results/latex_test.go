package results

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/testserver"
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

// A real LaTeX sets the tables of the shipped examples, and those of every kind that golden files hold, within
// the width of a page.
func TestTheTablesOfTheExamplesFitAPaperElsewhere(t *testing.T) {
	t.Parallel()
	testserver.InCheck(t, "Elsewhere")
	program, err := exec.LookPath("pdflatex")
	if err != nil {
		t.Skip(err)
	}
	var body strings.Builder
	for _, kept := range keptTables(t) {
		for _, table := range latexTables(kept.header, kept.rows, 1) {
			fmt.Fprintf(&body, "{\\footnotesize\\setlength{\\tabcolsep}{%dpt}%%\n%s}\n\n", latexSeparation, table)
		}
	}
	for _, name := range []string{"results", "replicates", "attacks"} {
		text, err := os.ReadFile("testdata/" + name + ".latex")
		if err != nil {
			t.Fatal(err)
		}
		body.Write(append(text, '\n'))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tables.tex"), fmt.Appendf(nil, latexPage, latexWidth, body.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "-interaction=nonstopmode", "-halt-on-error", "tables.tex")
	c.Dir = dir
	output, err := c.CombinedOutput()
	if err != nil || strings.Contains(string(output), "Overfull \\hbox") || !strings.Contains(string(output), "Output written on tables.pdf") {
		t.Errorf("%v\n%s", err, output)
	}
}
