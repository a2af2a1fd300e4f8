package results

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"coalmine/internal/chart"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/reports"
)

// Figure is a figure of the report that stands alone.
type Figure struct {
	// Number is its place among those of the run, from 0.
	Number int `json:"number"`
	// Cell and its label; empty for a figure of all cells.
	Cell  string `json:"cell,omitempty"`
	Label string `json:"label,omitempty"`
	// Title describes it to readers who do not see it; Caption is for all.
	Title   string `json:"title"`
	Caption string `json:"caption"`
	// Chart draws it.
	Chart *chart.Figure `json:"-"`
}

// FileName are the words of a title, in small letters and with hyphens between.
func FileName(title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "-")
}

// FileName is "00-mean-exposure-of-canaries-bits-by-training", without an extension.
func (f *Figure) FileName() string { return fmt.Sprintf("%02d-%s", f.Number, FileName(f.Title)) }

// drawn are figures that are drawn when somebody asks for them, once.
type drawn struct {
	once    sync.Once
	figures []Figure
	err     error
}

// Figures are those of the report: first of all cells together, then of each cell. They are
// not to be changed.
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
		figures = append(figures, Figure{Number: len(figures), Cell: cell, Label: label, Title: d.Title, Caption: d.Caption, Chart: &d.Figure})
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

// drawings are all figures of a run.
type drawings struct {
	// together are those of all cells.
	together []*drawing
	cells    []cellDrawings
	about    []string // of each name
	// named are figures of one name, which have the same axes in all cells.
	named map[string][]*chart.Figure
}

// cellDrawings are the figures of a cell: of its last model, and of those before it.
type cellDrawings struct {
	last    []*drawing
	earlier []roundDrawings
}

// roundDrawings are of the model after a round before the last.
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

// addCell draws the figures of a cell's audits, then their curves.
func (all *drawings) addCell(c *viewCell) error {
	var d cellDrawings
	for _, f := range c.figures() {
		d.last = append(d.last, all.share(f.Name, f.About, newDrawing(f, c.Cell.Cell)))
	}
	for _, m := range c.heatMaps() {
		d.last = append(d.last, all.share(m.Name, m.About, newHeatMap(m, c.Cell.Cell)))
	}
	d.last = append(d.last, c.lineFigures()...)
	earlier, err := c.earlierFigures()
	if err != nil {
		return err
	}
	for _, r := range earlier {
		drawn := roundDrawings{round: r.round}
		for _, f := range r.figures {
			drawn.figures = append(drawn.figures, all.share(f.Name, f.About, newDrawing(f, c.Cell.Cell)))
		}
		d.earlier = append(d.earlier, drawn)
	}
	all.cells = append(all.cells, d)
	return nil
}

// share notes a figure that has its axes in common with others of its name.
func (all *drawings) share(name, about string, d *drawing) *drawing {
	if !slices.Contains(all.about, about) {
		all.about = append(all.about, about)
	}
	all.named[name] = append(all.named[name], &d.Figure)
	return d
}

// heatMaps are those of the cell's outcomes.
func (v *viewCell) heatMaps() (maps []*audits.HeatMap) {
	for d, outcome := range v.measured() {
		if d.HeatMaps != nil {
			maps = append(maps, d.HeatMaps(outcome)...)
		}
	}
	return maps
}

// figures are those of the cell's outcomes.
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

// roundFigures are of the model after one round.
type roundFigures struct {
	round   int
	figures []*audits.Figure
}

// mostEarlier is how many rounds before the last have figures, the others are left out
// evenly: a page of thousands is no help.
const mostEarlier = 12

// earlierFigures are those of models before the last, the latest first.
func (v *viewCell) earlierFigures() ([]roundFigures, error) {
	if v.Report == nil || len(v.Curve) < 2 {
		return nil, nil
	}
	var rounds []roundFigures
	before := len(v.Curve) - 1
	shown := min(before, mostEarlier)
	for k := range shown {
		p := &v.Curve[before-1-k*before/shown]
		figures, err := figuresOf(p)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", p.Round, err)
		}
		if len(figures) > 0 {
			rounds = append(rounds, roundFigures{p.Round, figures})
		}
	}
	return rounds, nil
}

// figuresOf are the figures of the outcomes that stand with a point.
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
