package results

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"coalmine/tasks/audits/summary"
	"coalmine/tasks/reports"
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

// tick is a grid line and its number.
type tick struct {
	At   float64
	Text string
}

func newFrame(title string, x, y axis) frame {
	return frame{
		Title: title, Width: figureWidth, Height: figureHeight,
		Left: figureLeft, Right: figureRight, Top: figureTop, Bottom: figureBottom,
		TickLine: figureBottom + 16, TickColumn: figureLeft - 5,
		XTicks: x.ticks(), YTicks: y.ticks(),
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
	return math.Round(10*(a.from+(a.to-a.from)*share)) / 10
}

// ticks are 0 and powers of ten, or about five multiples of a round number.
func (a axis) ticks() []tick {
	ticks := []tick{a.tick(0)}
	if a.logarithmic {
		for v := 1.0; v <= a.largest; v *= 10 {
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
	return tick{a.at(value), strconv.FormatFloat(value, 'f', -1, 64)}
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

// exposureFigure has a dot for every canary of a cell: its copies, its exposure.
type exposureFigure struct {
	Frame frame
	Limit string // path of the most that the references can show
	Dots  []dot
}

// dot is a canary. A control has no copy.
type dot struct {
	X, Y               float64
	Memorized, Control bool
	Title              string
}

// newExposureFigure is nil if no canary of the audit was ranked.
func newExposureFigure(a *summary.Audit, label string, copies, exposure axis) *exposureFigure {
	if a == nil || a.RandomSampling == nil {
		return nil
	}
	f := &exposureFigure{Frame: newFrame("exposure in bits against copies, "+label, copies, exposure)}
	most := exposure.at(math.Log2(float64(a.RandomSampling.References)))
	f.Limit = fmt.Sprintf("M%d %gH%d", figureLeft, most, figureRight)
	for _, canaries := range [][]summary.CanaryResult{a.Controls, a.NeverInserted, a.Canaries} {
		for i := range canaries {
			c := &canaries[i]
			if c.Exposure == nil {
				continue
			}
			f.Dots = append(f.Dots, dot{
				X: copies.at(float64(c.Insertions)), Y: exposure.at(math.Max(*c.Exposure, 0)),
				Memorized: c.Memorized != nil && *c.Memorized, Control: c.Insertions == 0, Title: canaryTitle(c),
			})
		}
	}
	return f
}

// canaryTitle says all about a canary of which the exposure is known.
func canaryTitle(c *summary.CanaryResult) string {
	atLeast := ""
	if c.ExposureCensored != nil && *c.ExposureCensored {
		atLeast = "at least "
	}
	text := fmt.Sprintf("%s: %d copies at %d users; exposure %s%.1f bits", strings.Join(c.Words, " "), c.Insertions, c.Holders, atLeast, *c.Exposure)
	if c.Rank != nil {
		text += fmt.Sprintf(", rank %d", *c.Rank)
	}
	if c.ExposureSE != nil {
		text += fmt.Sprintf(" (estimated, standard error %.2f bits)", *c.ExposureSE)
	}
	return text
}

// curveFigure has how many canaries were memorized along a training.
type curveFigure struct {
	Frame frame
	Lines []line
}

// line is a polyline of a class of the page's style.
type line struct{ Class, Points string }

// newCurveFigure is nil unless the cell was audited at two rounds or more.
func newCurveFigure(curve []reports.Point, label string, of int) *curveFigure {
	if len(curve) < 2 || of == 0 {
		return nil
	}
	rounds, memorized := horizontal(float64(curve[len(curve)-1].Round), false), vertical(float64(of))
	f := &curveFigure{Frame: newFrame("canaries memorized by round, "+label, rounds, memorized)}
	add := func(class string, value func(*reports.Point) *int) {
		var points []string
		for i := range curve {
			if v := value(&curve[i]); v != nil {
				points = append(points, fmt.Sprintf("%g,%g", rounds.at(float64(curve[i].Round)), memorized.at(float64(*v))))
			}
		}
		if len(points) > 0 {
			f.Lines = append(f.Lines, line{class, strings.Join(points, " ")})
		}
	}
	add("random", func(p *reports.Point) *int { return p.RandomSamplingMemorized })
	add("beam", func(p *reports.Point) *int { return p.BeamSearchMemorized })
	return f
}
