package results

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"

	"coalmine/tasks/audits"
)

//go:embed report.html figure.html
var pages embed.FS

var templates = template.Must(template.ParseFS(pages, "*.html"))

// htmlReport is what the page shows.
type htmlReport struct {
	Run, Experiment, Counts string
	Table                   *Table
	Attacks                 *attackTable // nil where nothing was attacked
	Pictures                *pictureGrid
	Charts                  []chartFigure
	About                   []string // the figures of cells
	Cells                   []htmlCell
}

type htmlCell struct {
	Name, Label, Status string
	Breaches            []string
	Figures             []*drawing
}

// chartFigure is a figure of all cells, with what is to be known to read it.
type chartFigure struct {
	About  string
	Figure *drawing
}

// writeHTML writes a page that stands alone, without scripts: the table, what it means,
// the pictures of the cells side by side, the figures of all cells together, and for every
// cell the figures of its audits, and their curves along the training.
func (v *view) writeHTML(w io.Writer) error {
	page := htmlReport{Run: v.Run, Experiment: v.Experiment, Counts: v.counts(), Table: v.table(), Attacks: v.attackTable(), Pictures: newPictureGrid(v.cells, v.Results.Pictures)}
	for _, c := range v.charts() {
		page.Charts = append(page.Charts, chartFigure{c.About, c.drawing()})
	}
	scales := newScales(v.cells)
	page.About = scales.about
	for i := range v.cells {
		c := &v.cells[i]
		page.Cells = append(page.Cells, htmlCell{Name: c.Cell.Cell, Label: c.Label, Status: c.Status, Breaches: c.Breaches, Figures: scales.draw(c)})
	}
	return templates.ExecuteTemplate(w, "report.html", page)
}

// Figure is a figure of the report that stands alone.
type Figure struct {
	// Number is its place among those of the run, from 0.
	Number int `json:"number"`
	// Cell and its label; empty for a figure of all cells.
	Cell  string `json:"cell,omitempty"`
	Label string `json:"label,omitempty"`
	// Title says what it shows, for those who do not see it; Caption what is what in it.
	Title   string `json:"title"`
	Caption string `json:"caption"`
	// SVG is a file.
	SVG []byte `json:"-"`
}

// Figures are those of the report: first of all cells together, then of each cell.
func (r *Results) Figures() ([]Figure, error) {
	v, err := r.view()
	if err != nil {
		return nil, err
	}
	figures := []Figure{}
	add := func(cell, label string, d *drawing) error {
		var b bytes.Buffer
		err := templates.ExecuteTemplate(&b, "alone", d)
		figures = append(figures, Figure{Number: len(figures), Cell: cell, Label: label, Title: d.Frame.Title, Caption: d.Caption, SVG: b.Bytes()})
		return err
	}
	for _, c := range v.charts() {
		if err := add("", "", c.drawing()); err != nil {
			return nil, err
		}
	}
	scales := newScales(v.cells)
	for i := range v.cells {
		c := &v.cells[i]
		for _, d := range scales.draw(c) {
			if err := add(c.Cell.Cell, c.Label, d); err != nil {
				return nil, err
			}
		}
	}
	return figures, nil
}

// scales are those that figures of one name have in common, over all cells.
type scales struct {
	spans   map[string]span
	darkest map[string]float64
	about   []string // what is to be known of each name
}

func newScales(cells []viewCell) *scales {
	s := &scales{map[string]span{}, map[string]float64{}, nil}
	for i := range cells {
		for _, f := range cells[i].figures() {
			if _, known := s.spans[f.Name]; !known {
				s.about = append(s.about, f.About)
			}
			s.spans[f.Name] = s.spans[f.Name].with(f)
		}
		for _, m := range cells[i].heatMaps() {
			if _, known := s.darkest[m.Name]; !known && !slices.Contains(s.about, m.About) {
				s.about = append(s.about, m.About)
			}
			s.darkest[m.Name] = max(s.darkest[m.Name], largest(m))
		}
	}
	return s
}

// draw draws the figures of a cell's audits, then their curves.
func (s *scales) draw(c *viewCell) (figures []*drawing) {
	for _, f := range c.figures() {
		figures = append(figures, newDrawing(f, c.Cell.Cell, s.spans[f.Name]))
	}
	for _, m := range c.heatMaps() {
		figures = append(figures, newHeatMap(m, c.Cell.Cell, s.darkest[m.Name]))
	}
	return append(figures, c.lineFigures()...)
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
