package results

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

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
	// Title says what it shows, for those who do not see it; Caption what is what in it.
	Title   string `json:"title"`
	Caption string `json:"caption"`
	// SVG is a file.
	SVG []byte `json:"-"`
}

// FileName are the words of a title, in small letters and with hyphens between.
func FileName(title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "-")
}

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
	figures := []Figure{}
	add := func(cell, label string, d *drawing) {
		figures = append(figures, Figure{Number: len(figures), Cell: cell, Label: label, Title: d.Frame.Title, Caption: d.Caption, SVG: d.alone()})
	}
	for _, c := range v.charts() {
		add("", "", c.drawing())
	}
	scales, err := newScales(v.cells)
	if err != nil {
		return nil, err
	}
	for i := range v.cells {
		c := &v.cells[i]
		for _, d := range scales.draw(c) {
			add(c.Cell.Cell, c.Label, d)
		}
	}
	return figures, nil
}

// scales are those that figures of one name have in common, over all cells.
type scales struct {
	spans   map[string]span
	darkest map[string]float64
	about   []string // what is to be known of each name
	// earlier are the figures of models before the last, by cell.
	earlier [][]roundFigures
}

// roundFigures are of the model after one round.
type roundFigures struct {
	round   int
	figures []*audits.Figure
}

func newScales(cells []viewCell) (*scales, error) {
	s := &scales{spans: map[string]span{}, darkest: map[string]float64{}}
	for i := range cells {
		c := &cells[i]
		earlier, err := c.earlierFigures()
		if err != nil {
			return nil, fmt.Errorf("cell %s: %w", c.Cell.Cell, err)
		}
		s.earlier = append(s.earlier, earlier)
		s.fit(c.figures())
		for _, r := range earlier {
			s.fit(r.figures)
		}
		for _, m := range c.heatMaps() {
			if _, known := s.darkest[m.Name]; !known && !slices.Contains(s.about, m.About) {
				s.about = append(s.about, m.About)
			}
			s.darkest[m.Name] = max(s.darkest[m.Name], largest(m))
		}
	}
	return s, nil
}

// fit makes the scales large enough for some figures.
func (s *scales) fit(figures []*audits.Figure) {
	for _, f := range figures {
		if _, known := s.spans[f.Name]; !known {
			s.about = append(s.about, f.About)
		}
		s.spans[f.Name] = s.spans[f.Name].with(f)
	}
}

// htmlRound has the figures of a cell's model after a round before the last.
type htmlRound struct {
	Round   int
	Figures []*drawing
}

// drawEarlier draws the figures of the models of a cell before the last.
func (s *scales) drawEarlier(cell int, c *viewCell) (rounds []htmlRound) {
	for _, r := range s.earlier[cell] {
		drawn := htmlRound{Round: r.round}
		for _, f := range r.figures {
			drawn.Figures = append(drawn.Figures, newDrawing(f, c.Cell.Cell, s.spans[f.Name]))
		}
		rounds = append(rounds, drawn)
	}
	return rounds
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
