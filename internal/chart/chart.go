// Package chart draws figures for papers. A figure is data and axes; its layout is one scene of
// lines, areas and texts, which is written as SVG, PDF or PNG. Sizes are in points, 1/72 inch.
// Equal figures have equal bytes.
package chart

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Width is the width of a figure in a paper.
type Width string

// Widths that journals ask for: 85 mm and 178 mm.
const (
	OneColumn  Width = "one-column"
	TwoColumns Width = "two-columns"
)

func WidthNamed(name string) (Width, error) {
	if w := Width(name); w == OneColumn || w == TwoColumns {
		return w, nil
	}
	return "", fmt.Errorf("width %.40q: expected %s (85 mm) or %s (178 mm)", name, OneColumn, TwoColumns)
}

const pointsPerMillimetre = 72 / 25.4

// size returns the width of a page and the height of the frame in it.
func (w Width) size() (width, frame float64) {
	if w == TwoColumns {
		return 178 * pointsPerMillimetre, 190
	}
	return 85 * pointsPerMillimetre, 120
}

// Figure is a chart, or a heat map if Heat is set.
type Figure struct {
	// Title describes the figure to readers who do not see it; it is not drawn.
	Title  string
	X, Y   Axis
	Series []Series
	// Heat holds the numbers of a heat map, 0 or more, by row from the top and by column; NaN
	// leaves a square empty. X.Labels and Y.Labels name columns and rows.
	Heat [][]float64
	// Darkest is the number of the darkest square, unless Heat has a larger one.
	Darkest float64
}

// Axis is one of the two axes of a figure.
type Axis struct {
	// Title includes the unit.
	Title string
	Scale Scale
	// Whole limits the tick labels to integers.
	Whole bool
	// Range is the smallest range of the axis, which grows to cover all data.
	Range Range
	// Level is the place of a dashed line across the figure; 0 for none.
	Level float64
	// Labels replace the numbers at 1, 2, ...
	Labels []string
}

// Series is a list of points drawn in the same style.
type Series struct {
	// Name is the text in the legend; a series without a name is not listed.
	Name   string
	Kind   Kind
	Points []Point
	// Style selects colour, marker and dashes. Open markers are not filled.
	Style      int
	Open, Grey bool
	// Plain lines have no markers.
	Plain bool
}

// Kind is the form of a series.
type Kind int

// Forms of series.
const (
	Dots      Kind = iota
	Line           // through the points in order, with markers if they are few
	Bars           // from 0 up to the points
	Intervals      // only the intervals of the points
)

// Point is a place in a figure. It has an interval of Y if Low is less than High, and one of X
// if Left is less than Right.
type Point struct {
	X, Y, Low, High, Left, Right float64
	// Width is the width of a bar, in units of X.
	Width float64
	// Note describes the point. Browsers show it above the marker.
	Note string
}

func (p *Point) bounded() bool { return p.Low < p.High }

// Share gives figures the same ranges and colours, so that readers can compare them.
func Share(figures ...*Figure) {
	var x, y Range
	darkest := 0.0
	for _, f := range figures {
		x, y, darkest = x.union(f.xRange()), y.union(f.yRange()), max(darkest, f.darkest())
	}
	for _, f := range figures {
		f.X.Range, f.Y.Range, f.Darkest = x, y, darkest
	}
}

func (f *Figure) darkest() float64 {
	most := f.Darkest
	for _, row := range f.Heat {
		for _, v := range row {
			if v > most { // false for NaN
				most = v
			}
		}
	}
	return most
}

// WriteCSV writes the numbers of the figure, one point or square a line.
func (f *Figure) WriteCSV(w io.Writer) error {
	rows := [][]string{{"series", "x", "x_label", "x_low", "x_high", "y", "y_low", "y_high", "note"}}
	for _, s := range f.Series {
		for _, p := range s.Points {
			row := []string{s.Name, number(p.X), f.X.label(p.X), "", "", number(p.Y), "", "", p.Note}
			if p.Left < p.Right {
				row[3], row[4] = number(p.Left), number(p.Right)
			}
			if p.bounded() {
				row[6], row[7] = number(p.Low), number(p.High)
			}
			rows = append(rows, row)
		}
	}
	for i, row := range f.Heat {
		for j, v := range row {
			text := ""
			if !math.IsNaN(v) {
				text = number(v)
			}
			rows = append(rows, []string{f.Y.Labels[i], strconv.Itoa(j + 1), f.X.Labels[j], "", "", text, "", "", ""})
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// label returns the label at a position, "" if the axis shows numbers.
func (a *Axis) label(at float64) string {
	if i := int(at) - 1; i >= 0 && i < len(a.Labels) {
		return strings.TrimSpace(a.Labels[i])
	}
	return ""
}

// Formats are the file formats of figures, which are also the file extensions.
var Formats = []string{"svg", "pdf", "png"}

func (f *Figure) File(format string, w Width) []byte {
	switch format {
	case "pdf":
		return PDF(w, f)
	case "png":
		return f.PNG(w)
	}
	return f.SVG(w)
}
