package results

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"coalmine/tasks/audits"
)

//go:embed report.html
var reportPage string

var reportTemplate = template.Must(template.New("report").Parse(reportPage))

// htmlReport is what the page shows.
type htmlReport struct {
	Run, Experiment, Counts string
	Table                   *Table
	Pictures                *pictureGrid
	About                   []string // the figures with dots
	Cells                   []htmlCell
}

type htmlCell struct {
	Name, Label, Status string
	Breaches            []string
	Dots                []*dotFigure
	Lines               []*lineFigure
}

// writeHTML writes a page that stands alone, without scripts: the table, what it means,
// the pictures of the cells side by side, and for every cell the figures of its audits, and
// their curves along the training.
func (v *view) writeHTML(w io.Writer) error {
	page := htmlReport{Run: v.Run, Experiment: v.Experiment, Counts: v.counts(), Table: v.table(), Pictures: newPictureGrid(v.cells, v.Results.Pictures)}
	spans := map[string]span{}
	figures := make([][]*audits.Figure, len(v.cells))
	for i := range v.cells {
		figures[i] = v.cells[i].figures()
		for _, f := range figures[i] {
			if _, known := spans[f.Name]; !known {
				page.About = append(page.About, f.About)
			}
			spans[f.Name] = spans[f.Name].with(f)
		}
	}
	for i := range v.cells {
		c := &v.cells[i]
		out := htmlCell{Name: c.Cell.Cell, Label: c.Label, Status: c.Status, Breaches: c.Breaches, Lines: c.lineFigures()}
		for _, f := range figures[i] {
			out.Dots = append(out.Dots, newDotFigure(f, c.Cell.Cell, spans[f.Name]))
		}
		page.Cells = append(page.Cells, out)
	}
	return reportTemplate.Execute(w, page)
}

// figures are those of the cell's verdicts.
func (v *viewCell) figures() []*audits.Figure {
	var figures []*audits.Figure
	for _, verdict := range v.verdicts {
		if f, ok := verdict.(audits.Figured); ok {
			if figure := f.Figure(&v.decoded); figure != nil {
				figures = append(figures, figure)
			}
		}
	}
	return figures
}

// counts is "3 of 4 cells done".
func (v *view) counts() string {
	done := 0
	for i := range v.cells {
		if v.cells[i].Status == Done {
			done++
		}
	}
	return fmt.Sprintf("%d of %d cells done", done, len(v.cells))
}
