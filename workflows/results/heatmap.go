package results

import (
	"fmt"
	"math"
	"strings"

	"coalmine/tasks/audits"
)

// square is an element of a heat map; the darker, the larger its number is.
type square struct {
	X, Y, Width, Height float64
	Opacity             float64
	TextX, TextY        float64
	Text                string // the number, empty where there is none
	Title               string
}

// mostOpacity leaves the numbers legible.
const mostOpacity = 0.45

// newHeatMap draws a table of numbers, of which most is the largest in any cell.
func newHeatMap(m *audits.HeatMap, cell string, most float64) *drawing {
	columns, rows := places{figureLeft, figureRight, len(m.Columns)}, places{figureTop, figureBottom, len(m.Rows)}
	out := &drawing{Caption: m.Name, Frame: newFrame(m.Title+", "+cell, columns.labels(m.Columns, true), rows.labels(m.Rows, true))}
	for i, row := range m.Values {
		for j, value := range row {
			s := square{
				X: columns.at(float64(j)), Y: rows.at(float64(i)), TextX: columns.at(float64(j) + 0.5), TextY: rows.at(float64(i) + 0.5),
				Width: tenth(columns.width()), Height: tenth(rows.width()), Title: m.Rows[i] + ", " + m.Columns[j] + ": none",
			}
			if !math.IsNaN(value) {
				s.fill(value, most)
			}
			out.Squares = append(out.Squares, s)
		}
	}
	return out
}

// fill gives a square its number.
func (s *square) fill(value, most float64) {
	s.Text = fmt.Sprintf("%.3g", value)
	s.Title = strings.TrimSuffix(s.Title, "none") + s.Text
	if most > 0 {
		s.Opacity = math.Round(1000*mostOpacity*value/most) / 1000
	}
}

// places divide a side of a figure into so many equal parts.
type places struct {
	from, to float64
	n        int
}

func (p places) width() float64 { return (p.to - p.from) / float64(p.n) }

// at is where a part begins, counted from 0, to a tenth of a unit.
func (p places) at(place float64) float64 { return tenth(p.from + place*p.width()) }

// labels stand in the middle of the parts.
func (p places) labels(texts []string, bare bool) []tick {
	ticks := make([]tick, len(texts))
	for i, text := range texts {
		ticks[i] = tick{p.at(float64(i) + 0.5), text, bare}
	}
	return ticks
}

// tenth rounds a place within a figure.
func tenth(at float64) float64 { return math.Round(10*at) / 10 }

// largest is the largest number of a table.
func largest(m *audits.HeatMap) (most float64) {
	for _, row := range m.Values {
		for _, value := range row {
			if value > most { // not so of NaN
				most = value
			}
		}
	}
	return most
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
