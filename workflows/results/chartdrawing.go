package results

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"coalmine/tasks/audits"
)

// letterWidth is about how wide a letter of a figure is, in units of its view box.
const letterWidth = 6

// lineWidth is how far lines of a chart stand from each other beside one value.
const lineWidth = 8

// drawing draws a chart. Values of an axis stand side by side; where they are too long for
// that, numbers stand for them, which the caption explains.
func (c *Chart) drawing() *drawing {
	x, y := c.axes()
	ticks, legend := x.ticks(), ""
	if len(c.Values) > 0 {
		ticks, legend = c.valueTicks()
	}
	d := &drawing{Frame: newFrame(c.Title, ticks, y.ticks())}
	switch {
	case c.Level > 0:
		d.Limit = fmt.Sprintf("M%d %gH%d", figureLeft, y.at(c.Level), figureRight)
	case c.LevelX > 0:
		d.Limit = fmt.Sprintf("M%g %dV%d", x.at(c.LevelX), figureTop, figureBottom)
	}
	for i, line := range c.Lines {
		c.draw(d, &line, i, x.moved(c.aside(i)), y)
	}
	d.Caption = fmt.Sprintf("%s (upwards) by %s (to the right)%s%s", c.Y, c.X, c.names(), legend)
	return d
}

// valueTicks are the values of the axis, or numbers that the legend explains.
func (c *Chart) valueTicks() (ticks []tick, legend string) {
	columns, labels := places{figureLeft, figureRight, len(c.Values)}, c.Values
	if tooLong(labels, columns.width()) {
		labels, legend = numbered(labels)
	}
	return columns.labels(labels, false), legend
}

// axes hold all points and, where values of an axis stand to the right, their intervals.
func (c *Chart) axes() (x, y axis) {
	var mostX, mostY float64
	for _, line := range c.Lines {
		for _, p := range line.Points {
			mostX, mostY = max(mostX, p.X), max(mostY, p.Y)
			if len(c.Values) > 0 {
				mostY = max(mostY, p.High)
			}
		}
	}
	x, y = horizontal(mostX, false), vertical(mostY)
	if n := float64(len(c.Values)); n > 0 { // 1 to n, in the middles of n equal parts
		half := (figureRight - figureLeft) / n / 2
		x = axis{from: figureLeft - half, to: figureRight - half, largest: n}
	}
	return x, y
}

// aside is how far a line stands beside its values, so that its intervals do not hide those of
// the others.
func (c *Chart) aside(line int) float64 {
	if len(c.Values) == 0 {
		return 0
	}
	columns := places{figureLeft, figureRight, len(c.Values)}
	step := min(lineWidth, columns.width()/float64(len(c.Lines)+1))
	return tenth(step * (float64(line) - float64(len(c.Lines)-1)/2))
}

// mark is how the points of a line look.
type mark struct {
	class  string
	filled bool
	words  string
}

// marks tell points apart that no line joins, in the order in which a chart uses them; with more
// lines they repeat.
var marks = []mark{
	{"solid", false, "open ochre circles"}, {"dashed", true, "filled blue circles"}, {"dotted", false, "open teal circles"},
	{"solid", true, "filled ochre circles"}, {"dashed", false, "open blue circles"}, {"dotted", true, "filled teal circles"},
}

// mark is that of the i-th line: its stroke where it has one.
func (l *ChartLine) mark(i int) mark {
	if l.Joined {
		return mark{class: stroke(i), words: stroke(i)}
	}
	return marks[i%len(marks)]
}

// draw adds the i-th line with its points.
func (c *Chart) draw(d *drawing, l *ChartLine, i int, x, y axis) {
	look := l.mark(i)
	points := make([]audits.Point, len(l.Points))
	for i, p := range l.Points {
		points[i] = audits.Point{X: p.X, Y: p.Y}
		d.Dots = append(d.Dots, dot{X: x.at(p.X), Y: y.at(p.Y), Class: look.class, Filled: look.filled, Title: c.title(&p)})
		if len(c.Values) > 0 && p.Low < p.High {
			d.Ranges += fmt.Sprintf("M%g %gV%g", x.at(p.X), y.at(p.Low), y.at(p.High))
		}
	}
	if l.Joined && len(points) > 1 {
		d.Lines = append(d.Lines, line{look.class, polyline(points, x, y)})
	}
}

// title says what a point is.
func (c *Chart) title(p *ChartPoint) string {
	if len(c.Values) > 0 {
		return fmt.Sprintf("%s, %s: %s %.3g (%.3g to %.3g)", p.Cell, p.Label, c.Y, p.Y, p.Low, p.High)
	}
	return fmt.Sprintf("%s, %s: %s %.3g (%.3g to %.3g), utility %.1f%%", p.Cell, p.Label, c.X, p.X, p.Low, p.High, p.Y)
}

// names say which line is which, where there are several.
func (c *Chart) names() string {
	var parts []string
	for i, l := range c.Lines {
		if l.Name != "" {
			parts = append(parts, l.Name+" "+l.mark(i).words)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// tooLong reports whether texts do not fit beside each other.
func tooLong(texts []string, width float64) bool {
	for _, text := range texts {
		if float64(letterWidth*utf8.RuneCountInString(text)) > width {
			return true
		}
	}
	return false
}

// numbered are the numbers that stand for texts, and a legend.
func numbered(texts []string) (numbers []string, legend string) {
	for i, text := range texts {
		numbers = append(numbers, strconv.Itoa(i+1))
		legend += fmt.Sprintf("; %d: %s", i+1, cmp.Or(text, "empty"))
	}
	return numbers, legend
}
