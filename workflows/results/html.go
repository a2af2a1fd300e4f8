package results

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
)

//go:embed report.html
var reportPage string

var reportTemplate = template.Must(template.New("report").Parse(reportPage))

// htmlReport is what the page shows.
type htmlReport struct {
	Run, Experiment, Counts string
	Header                  []string
	Rows                    [][]string
	Notes                   []string
	Drawn                   bool // some cell has a figure of its exposures
	Cells                   []htmlCell
}

type htmlCell struct {
	Name, Label, Status string
	Breaches            []string
	Exposure            *exposureFigure
	Curve               *curveFigure
}

// WriteHTML writes a page that stands alone, without scripts: the table, what its
// epsilons mean, and for every cell the exposure of its canaries against their
// copies, and how many were memorized along the training.
func (r *Results) WriteHTML(w io.Writer) error {
	page := htmlReport{Run: r.Run, Experiment: r.Experiment, Counts: r.counts(), Notes: r.notes()}
	page.Header, page.Rows = r.rows()
	copies, exposure := r.exposureAxes()
	for i := range r.Cells {
		c := newHTMLCell(&r.Cells[i], copies, exposure)
		page.Drawn = page.Drawn || c.Exposure != nil
		page.Cells = append(page.Cells, c)
	}
	return reportTemplate.Execute(w, page)
}

// counts is "3 of 4 cells done".
func (r *Results) counts() string {
	done := 0
	for i := range r.Cells {
		if r.Cells[i].Status == Done {
			done++
		}
	}
	return fmt.Sprintf("%d of %d cells done", done, len(r.Cells))
}

func newHTMLCell(c *Cell, copies, exposure axis) htmlCell {
	out := htmlCell{Name: c.Cell, Label: c.Label, Status: c.Status, Breaches: c.Breaches}
	if c.Report == nil || c.Audit == nil {
		return out
	}
	out.Exposure = newExposureFigure(c.Audit, c.Cell, copies, exposure)
	out.Curve = newCurveFigure(c.Curve, c.Cell, len(c.Audit.Canaries))
	return out
}

// exposureAxes hold the canaries of all cells, so that the eye can compare.
func (r *Results) exposureAxes() (copies, exposure axis) {
	most, bits := 0, 0.0
	for i := range r.Cells {
		if r.Cells[i].Report == nil || r.Cells[i].Audit == nil {
			continue
		}
		a := r.Cells[i].Audit
		if a.RandomSampling != nil {
			bits = math.Max(bits, math.Log2(float64(max(1, a.RandomSampling.References))))
		}
		for _, c := range a.Canaries {
			most = max(most, c.Insertions)
		}
	}
	return horizontal(float64(most), true), vertical(bits * 1.05)
}
