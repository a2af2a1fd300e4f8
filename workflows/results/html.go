package results

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"coalmine/internal/chart"
	"coalmine/internal/lists"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/reports"
)

// Figure is a standalone figure of the report.
type Figure struct {
	// Number is the number of the figure in the run, from 0.
	Number int `json:"number"`
	// Cell is the name of the cell, and Label its label; both are empty for a figure of all cells.
	Cell  string `json:"cell,omitempty"`
	Label string `json:"label,omitempty"`
	// Title describes the figure to readers who cannot see it; Caption is for all readers.
	Title   string `json:"title"`
	Caption string `json:"caption"`
	// About explains the marks of a figure of a cell; the caption of other figures explains them.
	About string `json:"-"`
	// Chart is the figure to draw.
	Chart *chart.Figure `json:"-"`
}

// FileName returns the words of a title in lower case, joined by hyphens.
func FileName(title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "-")
}

// FileName returns a name such as "00-mean-exposure-of-canaries-bits-by-training", without an extension.
func (f *Figure) FileName() string { return fmt.Sprintf("%02d-%s", f.Number, FileName(f.Title)) }

// drawn holds figures, which are drawn once, at the first request.
type drawn struct {
	once    sync.Once
	figures []Figure
	err     error
}

// Figures returns the figures of the report: first those of all cells together, then those of each cell.
// Callers must not change them.
func (r *Results) Figures() ([]Figure, error) {
	if r.drawn == nil {
		return r.draw()
	}
	r.drawn.once.Do(func() { r.drawn.figures, r.drawn.err = r.draw() })
	return r.drawn.figures, r.drawn.err
}

func (r *Results) draw() ([]Figure, error) {
	v, err := r.view()
	if err != nil {
		return nil, err
	}
	all, err := v.drawings()
	if err != nil {
		return nil, err
	}
	figures := []Figure{}
	add := func(cell, label string, d *drawing) {
		figures = append(figures, Figure{Number: len(figures), Cell: cell, Label: label, Title: d.Title, Caption: d.Caption, About: d.About, Chart: &d.Figure})
	}
	for _, d := range all.together {
		add("", "", d)
	}
	for i := range v.cells {
		for _, d := range all.cells[i].last {
			add(v.cells[i].Cell.Cell, v.cells[i].Label, d)
		}
	}
	return figures, nil
}

// drawings holds all figures of a run.
type drawings struct {
	// together are the figures of all cells.
	together []*drawing
	cells    []cellDrawings
	about    []string // distinct explanations
	// named holds the figures by name. Figures of one name have the same axes in all cells.
	named map[string][]*chart.Figure
}

// cellDrawings holds the figures of a cell: of its last model, and of earlier ones.
type cellDrawings struct {
	last    []*drawing
	earlier []roundDrawings
}

// roundDrawings holds the figures of the model after an earlier round.
type roundDrawings struct {
	round   int
	figures []*drawing
}

func (v *view) drawings() (*drawings, error) {
	all := &drawings{named: map[string][]*chart.Figure{}}
	for _, c := range v.charts() {
		all.together = append(all.together, c.drawing())
	}
	all.together = append(all.together, v.comparisons()...)
	for i := range v.cells {
		if err := all.addCell(&v.cells[i]); err != nil {
			return nil, fmt.Errorf("cell %s: %w", v.cells[i].Cell.Cell, err)
		}
	}
	for _, figures := range all.named {
		chart.Share(figures...)
	}
	return all, nil
}

func (all *drawings) addCell(c *viewCell) error {
	var d cellDrawings
	for _, f := range c.figures() {
		d.last = append(d.last, all.share(f.Name, f.About, newDrawing(f, c.Cell.Cell)))
	}
	for a, outcome := range c.measured() {
		if a.HeatMaps != nil {
			for _, m := range a.HeatMaps(outcome) {
				d.last = append(d.last, all.share(m.Name, m.About, newHeatMap(m, c.Cell.Cell)))
			}
		}
	}
	d.last = append(d.last, c.lineFigures()...)
	err := all.addEarlier(c, &d)
	all.cells = append(all.cells, d)
	return err
}

// share registers a figure, which shares its axes with the others of its name.
func (all *drawings) share(name, about string, d *drawing) *drawing {
	if !slices.Contains(all.about, about) {
		all.about = append(all.about, about)
	}
	all.named[name] = append(all.named[name], &d.Figure)
	return d
}

// figures returns the figures of the cell's outcomes.
func (v *viewCell) figures() []*audits.Figure {
	var figures []*audits.Figure
	for d, outcome := range v.measured() {
		if f, ok := outcome.(audits.Figured); ok {
			if figure := f.Figure(&v.decoded); figure != nil {
				figures = append(figures, figure)
			}
		}
		if d.Panels != nil {
			figures = append(figures, d.Panels(outcome)...)
		}
	}
	return figures
}

// mostEarlier is the maximum number of earlier rounds with figures, evenly spaced. It keeps the page short.
const mostEarlier = 12

// addEarlier adds the figures of earlier models of a cell, the latest first.
func (all *drawings) addEarlier(c *viewCell, to *cellDrawings) error {
	if c.Report == nil || len(c.Curve) < 2 {
		return nil
	}
	before := len(c.Curve) - 1
	shown := min(before, mostEarlier)
	for k := range shown {
		p := &c.Curve[before-1-k*before/shown]
		figures, err := figuresOf(p)
		if err != nil {
			return fmt.Errorf("round %d: %w", p.Round, err)
		}
		drawn := roundDrawings{round: p.Round}
		for _, f := range figures {
			drawn.figures = append(drawn.figures, all.share(f.Name, f.About, newDrawing(f, c.Cell.Cell)))
		}
		if len(figures) > 0 {
			to.earlier = append(to.earlier, drawn)
		}
	}
	return nil
}

// figuresOf returns the figures of a point's outcomes.
func figuresOf(p *reports.Point) ([]*audits.Figure, error) {
	var figures []*audits.Figure
	for _, d := range all.Audits() {
		raw, there := p.Metrics.Get(d.Name)
		if !d.EveryRound || !there {
			continue
		}
		outcome := d.Outcome()
		if err := json.Unmarshal(raw, outcome); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		if d.Panels != nil {
			figures = append(figures, d.Panels(outcome)...)
		}
	}
	return figures, nil
}

// counts returns a text such as "3 of 4 cells done".
func (v *view) counts() string {
	done := lists.Count(v.cells, func(c viewCell) bool { return c.Status == Done })
	return fmt.Sprintf("%d of %d cells done", done, len(v.cells))
}
