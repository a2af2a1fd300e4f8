package results

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"coalmine/tasks/audits"
)

// The view box of a figure and the margins of its axes.
const (
	figureWidth, figureHeight = 360, 220
	figureLeft, figureRight   = 34, 340
	figureTop, figureBottom   = 10, 196
)

// frame is the axes of a figure.
type frame struct {
	Title                    string
	Width, Height            int
	Left, Right, Top, Bottom int
	TickLine, TickColumn     int // where the numbers stand: their base line, their right end
	XTicks, YTicks           []tick
}

// tick is a grid line and its number; a bare one has no line.
type tick struct {
	At   float64
	Text string
	Bare bool
}

func newFrame(title string, x, y []tick) frame {
	return frame{
		Title: title, Width: figureWidth, Height: figureHeight,
		Left: figureLeft, Right: figureRight, Top: figureTop, Bottom: figureBottom,
		TickLine: figureBottom + 16, TickColumn: figureLeft - 5,
		XTicks: x, YTicks: y,
	}
}

// axis maps values from 0 to the largest onto the view box.
type axis struct {
	from, to float64
	largest  float64
	// logarithmic axes are those of the logarithm of 1 more, so that 0 has a place.
	logarithmic bool
}

func horizontal(largest float64, logarithmic bool) axis {
	return axis{figureLeft, figureRight, math.Max(largest, 1), logarithmic}
}

func vertical(largest float64) axis {
	return axis{figureBottom, figureTop, math.Max(largest, 1), false}
}

// at is where a value stands, to a tenth of a unit.
func (a axis) at(value float64) float64 {
	share := value / a.largest
	if a.logarithmic {
		share = math.Log1p(value) / math.Log1p(a.largest)
	}
	return tenth(a.from + (a.to-a.from)*share)
}

// moved is the axis so much further to the right.
func (a axis) moved(by float64) axis {
	a.from, a.to = a.from+by, a.to+by
	return a
}

// mostDecades is how many powers of ten have a number each beside a logarithmic axis.
const mostDecades = 9

// ticks are 0 and powers of ten, of many the even or every third one and so on, or about
// five multiples of a round number.
func (a axis) ticks() []tick {
	ticks := []tick{a.tick(0)}
	if a.logarithmic {
		each := math.Pow(10, 1+math.Floor(math.Log10(a.largest)/mostDecades))
		for v := 1.0; v <= a.largest; v *= each {
			ticks = append(ticks, a.tick(v))
		}
		return ticks
	}
	step := roundStep(a.largest / 5)
	for v := step; v <= a.largest; v += step {
		ticks = append(ticks, a.tick(v))
	}
	return ticks
}

func (a axis) tick(value float64) tick {
	if value >= 1e6 {
		return tick{At: a.at(value), Text: strings.Replace(strconv.FormatFloat(value, 'e', -1, 64), "e+0", "e", 1)}
	}
	return tick{At: a.at(value), Text: strconv.FormatFloat(value, 'f', -1, 64)}
}

// roundStep is the least of 1, 2 and 5 times a power of ten that is least or more,
// and no less than 1.
func roundStep(least float64) float64 {
	for power := 1.0; ; power *= 10 {
		for _, step := range []float64{power, 2 * power, 5 * power} {
			if step >= least {
				return step
			}
		}
	}
}

// drawing is a figure as the page draws it, from the back to the front.
type drawing struct {
	Frame   frame
	Caption string
	Bars    string // path of all bars
	Squares []square
	Lines   []line
	Ranges  string // path of all ranges
	Limit   string // path of the limit, empty for none
	Dots    []dot
}

// dot is a thing that was measured. Class has its colour, if it is another than the first.
type dot struct {
	X, Y         float64
	Filled, Grey bool
	Class        string
	Title        string
}

// line is a polyline. Class tells it from others of the figure, in words of the caption.
type line struct{ Class, Points string }

// strokes are the classes of lines, in the order in which a figure uses them; with more
// lines they repeat.
var strokes = []string{"solid", "dashed", "dotted", "dash-dotted", "long-dashed", "sparsely-dotted"}

func stroke(i int) string { return strokes[i%len(strokes)] }

// span is how long the axes of the figures of one name are, over all cells.
type span struct{ x, y audits.Axis }

// with is long enough for another figure too.
func (s span) with(f *audits.Figure) span {
	x, y := f.X, f.Y
	x.Most, y.Most = max(x.Most, s.x.Most), max(y.Most, s.y.Most)
	return span{x, y}
}

func newDrawing(f *audits.Figure, cell string, s span) *drawing {
	x, y := horizontal(s.x.Most, s.x.Logarithmic), vertical(s.y.Most)
	out := &drawing{Frame: newFrame(f.Title+", "+cell, x.ticks(), y.ticks()), Caption: f.Name}
	if f.Of != "" {
		out.Caption += ", " + f.Of
	}
	if f.Limit > 0 {
		out.Limit = fmt.Sprintf("M%d %gH%d", figureLeft, y.at(f.Limit), figureRight)
	}
	for _, b := range f.Bars {
		out.Bars += fmt.Sprintf("M%g %dV%gH%gV%d", x.at(b.From), figureBottom, y.at(b.Y), x.at(b.To), figureBottom)
	}
	for _, r := range f.Ranges {
		out.Ranges += fmt.Sprintf("M%g %gV%g", x.at(r.X), y.at(r.Low), y.at(r.High))
	}
	if len(f.Line) > 0 {
		out.Lines = []line{{stroke(0), polyline(f.Line, x, y)}}
	}
	var names []string
	for i, l := range f.Lines {
		out.Lines, names = append(out.Lines, line{stroke(i), polyline(l.Points, x, y)}), append(names, l.Name+" "+stroke(i))
	}
	if len(names) > 0 {
		out.Caption += ": " + strings.Join(names, ", ")
	}
	for _, d := range f.Dots {
		out.Dots = append(out.Dots, dot{X: x.at(d.X), Y: y.at(d.Y), Filled: d.Filled, Grey: d.Grey, Title: d.About})
	}
	return out
}

// polyline is the points of a line.
func polyline(points []audits.Point, x, y axis) string {
	texts := make([]string, len(points))
	for i, p := range points {
		texts[i] = fmt.Sprintf("%g,%g", x.at(p.X), y.at(p.Y))
	}
	return strings.Join(texts, " ")
}

// lineFigures draw the curves of a cell, those of one figure together. There are none
// unless the cell was measured at two rounds or more.
func (v *viewCell) lineFigures() []*drawing {
	if v.Report == nil || len(v.Curve) < 2 {
		return nil
	}
	var names []string
	most, curves := map[string]float64{}, map[string][]audits.Curve{}
	for d, outcome := range v.measured() {
		for _, curve := range d.Curves() {
			if curves[curve.Figure] == nil {
				names = append(names, curve.Figure)
			}
			curves[curve.Figure] = append(curves[curve.Figure], curve)
			most[curve.Figure] = max(most[curve.Figure], curve.Most(outcome))
		}
	}
	var figures []*drawing
	if f := newLineFigure("Loss", v, lossCurves, mostLoss(v.Curve)); f != nil {
		figures = append(figures, f)
	}
	for _, name := range names {
		if f := newLineFigure(name, v, curves[name], most[name]); f != nil {
			figures = append(figures, f)
		}
	}
	return figures
}

func newLineFigure(name string, c *viewCell, curves []audits.Curve, most float64) *drawing {
	if most == 0 {
		return nil
	}
	x, y := horizontal(float64(c.Curve[len(c.Curve)-1].Round), false), vertical(most)
	f := &drawing{Frame: newFrame(strings.ToLower(name)+" by round, "+c.Cell.Cell, x.ticks(), y.ticks())}
	var drawn []string
	for _, curve := range curves {
		var points []audits.Point
		for i := range c.Curve {
			if value, ok := c.Curve[i].Metric(curve.Metric); ok {
				points = append(points, audits.Point{X: float64(c.Curve[i].Round), Y: value})
			}
		}
		if len(points) > 0 {
			class := stroke(len(f.Lines))
			f.Lines = append(f.Lines, line{class, polyline(points, x, y)})
			drawn = append(drawn, curve.Name+" "+class)
		}
	}
	f.Caption = name + ", by round: " + strings.Join(drawn, ", ")
	return f
}
