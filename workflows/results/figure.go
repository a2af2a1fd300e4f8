package results

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"coalmine/internal/chart"
	"coalmine/internal/lists"
	"coalmine/tasks/audits"
)

// drawing is a figure of the report before it is drawn.
type drawing struct {
	chart.Figure
	Caption, About string // About explains the marks
}

func newDrawing(f *audits.Figure, cell string) *drawing {
	d := &drawing{Caption: f.Name, About: f.About, Figure: chart.Figure{Title: f.Title + ", " + cell, X: chartAxis(f.X), Y: chartAxis(f.Y)}}
	d.Y.Level = f.Limit
	if f.Of != "" {
		d.Caption += ", " + f.Of
	}
	var bars, ranges, line chart.Series
	bars.Kind, ranges.Kind, line.Kind = chart.Bars, chart.Intervals, chart.Line
	bars.Points = lists.Map(f.Bars, func(b audits.Bar) chart.Point {
		return chart.Point{X: (b.From + b.To) / 2, Y: b.Y, Width: b.To - b.From}
	})
	ranges.Points = lists.Map(f.Ranges, func(r audits.Range) chart.Point { return chart.Point{X: r.X, Low: r.Low, High: r.High} })
	line.Points = points(f.Line)
	d.Series = []chart.Series{bars, ranges, line}
	for i, l := range f.Lines {
		d.Series = append(d.Series, chart.Series{Name: l.Name, Kind: chart.Line, Style: i, Points: points(l.Points)})
	}
	d.Series = append(d.Series, dotSeries(f)...)
	return d
}

func chartAxis(a audits.Axis) chart.Axis {
	scale := chart.Linear
	if a.Logarithmic {
		scale = chart.LogFromZero
	}
	return chart.Axis{Title: a.Title, Scale: scale, Whole: a.Whole, Range: chart.Range{Low: a.Min, High: a.Max}}
}

// dotSeries returns a series for each group of dots that look alike.
func dotSeries(f *audits.Figure) []chart.Series {
	series := []chart.Series{{Name: f.Filled}, {Name: f.Open, Open: true}, {Name: f.Grey, Open: true, Grey: true}}
	for _, d := range f.Dots {
		s := &series[1]
		switch {
		case d.Grey:
			s = &series[2]
		case d.Filled:
			s = &series[0]
		}
		s.Points = append(s.Points, chart.Point{X: d.X, Y: d.Y, Note: d.About})
	}
	for i := range series {
		series[i].Style = len(f.Lines) // no line has this style
		if len(series[i].Points) == 0 {
			series[i].Name = ""
		}
	}
	return series
}

func points(line []audits.Point) []chart.Point {
	return lists.Map(line, func(p audits.Point) chart.Point { return chart.Point{X: p.X, Y: p.Y} })
}

func newHeatMap(m *audits.HeatMap, cell string) *drawing {
	return &drawing{Caption: m.Name, About: m.About, Figure: chart.Figure{
		Title: m.Title + ", " + cell, Heat: m.Values,
		X: chart.Axis{Title: m.Across, Labels: m.Columns}, Y: chart.Axis{Title: m.Down, Labels: m.Rows},
	}}
}

// drawing draws a chart. Intervals lie along the axis of the audit's number.
func (c *Chart) drawing() *drawing {
	d := &drawing{Caption: fmt.Sprintf("%s by %s. %s", c.Y, c.X, c.About), Figure: chart.Figure{Title: c.Title}}
	d.X = chart.Axis{Title: withUnit(c.X), Labels: c.Values, Level: c.LevelX}
	if len(c.Values) > 0 {
		d.X.Title = wordsOfField(c.X)
	}
	d.Y = chart.Axis{Title: withUnit(c.Y), Level: c.Level}
	for i, l := range c.Lines {
		s := chart.Series{Name: l.Name, Style: i}
		if l.Joined {
			s.Kind = chart.Line
		}
		for _, p := range l.Points {
			at := chart.Point{X: p.X, Y: p.Y, Low: p.Low, High: p.High, Note: c.title(&p)}
			if len(c.Values) == 0 {
				at.Low, at.High, at.Left, at.Right = 0, 0, p.Low, p.High
			}
			s.Points = append(s.Points, at)
		}
		d.Series = append(d.Series, s)
	}
	return d
}

// withUnit puts the unit at the end of a name in parentheses: "mean exposure (bits)".
func withUnit(name string) string {
	for _, unit := range []string{"bits", "%"} {
		if text, ok := strings.CutSuffix(name, ", "+unit); ok {
			return text + " (" + unit + ")"
		}
	}
	return name
}

// wordsOfField turns the path of a field into words: "client learning rate" of training.client.learning_rate.
func wordsOfField(path string) string {
	return strings.NewReplacer(".", " ", "_", " ").Replace(strings.TrimPrefix(path, "training."))
}

func (c *Chart) title(p *ChartPoint) string {
	if len(c.Values) > 0 {
		return fmt.Sprintf("%s, %s: %s %.3g (%.3g to %.3g)", p.Cell, p.Label, c.Y, p.Y, p.Low, p.High)
	}
	return fmt.Sprintf("%s, %s: %s %.3g (%.3g to %.3g), utility %.1f%%", p.Cell, p.Label, c.X, p.X, p.Low, p.High, p.Y)
}

type curveFigure struct {
	name   string
	curves []audits.Curve
	most   float64 // the axis reaches at least this value
	// units are the units of the values, unless the axis of a curve names its own.
	units []string
}

// axisTitle returns the axis title with its unit.
func (f *curveFigure) axisTitle() string {
	title := strings.ToLower(f.name[:1]) + f.name[1:]
	if len(f.units) > 0 {
		title += " (" + strings.Join(f.units, ", ") + ")"
	}
	return cmp.Or(f.curves[0].Axis, title)
}

// curveFigures returns the losses and the curves of the cell's audits. It returns nil unless the cell was
// measured at two or more rounds.
func (v *viewCell) curveFigures() []curveFigure {
	if v.Report == nil || len(v.Curve) < 2 {
		return nil
	}
	losses := curveFigure{name: lossCurves[0].Figure, curves: lossCurves}
	if v.LossUnit != "" {
		losses.units = []string{v.LossUnit}
	}
	figures := []curveFigure{losses}
	for d, outcome := range v.measured() {
		for _, curve := range d.Curves() {
			figures = addCurve(figures, curve, curve.AxisEnd(outcome), nil)
		}
	}
	return figures
}

// ends returns the least and the greatest value that a curve can have in the cell.
func (v *viewCell) ends(curve audits.Curve) (least, most float64) {
	for d, outcome := range v.measured() {
		for _, own := range d.Curves() {
			if own.Figure == curve.Figure && own.Name == curve.Name {
				return own.Ends(outcome)
			}
		}
	}
	return math.Inf(-1), math.Inf(1)
}

func addCurve(figures []curveFigure, curve audits.Curve, most float64, units []string) []curveFigure {
	for i := range figures {
		if f := &figures[i]; f.name == curve.Figure {
			f.curves, f.most = append(f.curves[:len(f.curves):len(f.curves)], curve), max(f.most, most)
			return figures
		}
	}
	return append(figures, curveFigure{curve.Figure, []audits.Curve{curve}, most, units})
}

// lineFigures draws the curves of the cell.
func (v *viewCell) lineFigures() (figures []*drawing) {
	unit := v.roundUnit()
	for _, f := range v.curveFigures() {
		d := &drawing{Caption: f.name + ", by " + unit, Figure: chart.Figure{Title: strings.ToLower(f.name) + " by " + unit + ", " + v.Cell.Cell, X: chart.Axis{Title: unit, Whole: true}}}
		d.Y = chart.Axis{Title: f.axisTitle(), Range: chart.Range{High: f.most}}
		for _, curve := range f.curves {
			s := chart.Series{Name: curve.Name, Kind: chart.Line, Style: len(d.Series)}
			for i := range v.Curve {
				if value, ok := v.Curve[i].Metric(curve.Metric); ok {
					s.Points = append(s.Points, chart.Point{X: float64(v.Curve[i].Round), Y: value})
				}
			}
			if len(s.Points) > 0 {
				d.Series = append(d.Series, s)
			}
		}
		if len(d.Series) > 0 && (f.most > 0 || f.name == lossCurves[0].Figure) {
			figures = append(figures, d)
		}
	}
	return figures
}
