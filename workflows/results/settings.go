package results

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"coalmine/internal/chart"
	"coalmine/internal/lists"
	"coalmine/tasks/audits"
)

// setting is the unit that figures of all cells compare: a row of replicates, or a cell if there are no rows.
type setting struct {
	name  string
	cells []*viewCell
}

// settings returns the settings with outcomes, named by their labels if these are distinct.
func (v *view) settings() (list []setting) {
	var labels, names []string
	for _, row := range v.rows {
		s := setting{name: row.Name}
		for _, seed := range row.Seeds {
			s.cells = append(s.cells, row.done[seed])
		}
		list, labels = append(list, s), append(labels, row.Label)
	}
	for i := range v.cells {
		if c := &v.cells[i]; c.Report != nil && len(v.rows) == 0 {
			list, labels = append(list, setting{c.Cell.Cell, []*viewCell{c}}), append(labels, c.Label)
		}
	}
	for i := range list {
		names = append(names, strings.TrimSpace(list[i].name+" "+labels[i]))
	}
	if distinct(labels) {
		names = labels
	}
	for i := range list {
		list[i].name = names[i]
	}
	return list
}

// maxCompared is the maximum number of settings in a figure, because more colours are hard to distinguish.
const maxCompared = 8

// comparisons returns the figures that compare settings, by round and by copies.
func (v *view) comparisons() (figures []*drawing) {
	settings := v.settings()
	if len(settings) < 2 {
		return nil
	}
	for _, c := range append(curvesOf(settings), dotsOf(settings)...) {
		var lines []chart.Series
		for _, s := range settings {
			if p := c.points(&s); len(p) > 0 {
				lines = append(lines, chart.Series{Name: s.name, Kind: chart.Line, Points: p})
			}
		}
		if len(lines) > 1 {
			figures = append(figures, c.split(lines)...)
		}
	}
	return figures
}

// comparison is a figure of all settings, without its lines.
type comparison struct {
	drawing
	points func(*setting) []chart.Point
}

// split makes figures of at most maxCompared lines, with equal axes.
func (c *comparison) split(lines []chart.Series) (figures []*drawing) {
	var same []*chart.Figure
	for part := range slices.Chunk(lines, maxCompared) {
		d := c.drawing
		if len(lines) > maxCompared {
			d.Title += fmt.Sprintf(", part %d", len(figures)+1)
		}
		for i := range part {
			part[i].Style = i
		}
		d.Series = part
		figures, same = append(figures, &d), append(same, &d.Figure)
	}
	chart.Share(same...)
	return figures
}

// meansText explains the points of comparisons.
const meansText = "A point is the mean over the trainings of a setting, which differ only in the seed; vertical lines are 95% intervals by Student's t. Without replicates a point is one training."

// curvesOf compares each curve along the trainings.
func curvesOf(settings []setting) (list []comparison) {
	var figures []curveFigure
	var units []string // of rounds
	for _, s := range settings {
		for _, c := range s.cells {
			if unit := c.roundUnit(); len(c.Curve) > 0 && !slices.Contains(units, unit) {
				units = append(units, unit)
			}
			for _, f := range c.curveFigures() {
				for _, curve := range f.curves {
					figures = addMissing(figures, curve, f.units)
				}
			}
		}
	}
	unit := strings.Join(units, " or ")
	for _, f := range figures {
		for _, curve := range f.curves {
			c := comparison{points: func(s *setting) []chart.Point { return s.curve(curve) }}
			c.Title, c.X.Title, c.Y.Title = strings.ToLower(f.name)+" by "+unit, unit, f.axisTitle()
			if len(f.curves) > 1 {
				c.Title, c.Y.Title = c.Title+", "+curve.Name, curve.Name+": "+c.Y.Title
			}
			c.Caption = strings.ToUpper(c.Title[:1]) + c.Title[1:] + ". " + meansText
			list = append(list, c)
		}
	}
	return list
}

// addMissing adds a curve unless it exists, and units that its figure lacks.
func addMissing(figures []curveFigure, curve audits.Curve, units []string) []curveFigure {
	for i := range figures {
		f := &figures[i]
		for _, unit := range units {
			if f.name == curve.Figure && !slices.Contains(f.units, unit) {
				f.units = append(f.units, unit)
			}
		}
		if slices.ContainsFunc(f.curves, func(c audits.Curve) bool { return c.Figure == curve.Figure && c.Name == curve.Name }) {
			return figures
		}
	}
	return addCurve(figures, curve, 0, slices.Clone(units))
}

// curve returns the mean of a metric at each round. Trainings with equally many measurements are averaged
// measurement by measurement, because training.epochs gives them different numbers of steps.
func (s *setting) curve(curve audits.Curve) []chart.Point {
	least, most := math.Inf(-1), math.Inf(1)
	measured := lists.Filter(s.cells, func(c *viewCell) bool { return len(c.Curve) > 0 })
	rounds := meanRounds(measured)
	byRound := map[float64][]float64{}
	for _, c := range measured {
		least, most = c.ends(curve)
		for i := range c.Curve {
			if value, ok := c.Curve[i].Metric(curve.Metric); ok {
				at := float64(c.Curve[i].Round)
				if rounds != nil {
					at = rounds[i]
				}
				byRound[at] = append(byRound[at], value)
			}
		}
	}
	return means(byRound, least, most)
}

// meanRounds returns the mean round of each measurement over cells, or nil if their numbers of measurements
// differ.
func meanRounds(cells []*viewCell) []float64 {
	if slices.ContainsFunc(cells, func(c *viewCell) bool { return len(c.Curve) != len(cells[0].Curve) }) || len(cells) == 0 {
		return nil
	}
	return lists.Make(len(cells[0].Curve), func(i int) float64 {
		sum := 0.0
		for _, c := range cells {
			sum += float64(c.Curve[i].Round)
		}
		return sum / float64(len(cells))
	})
}

// means returns estimates of the values at each position, ascending. Their intervals lie between least and most.
func means(by map[float64][]float64, least, most float64) (points []chart.Point) {
	for at, values := range by {
		if e := audits.NewEstimate(values); !e.Infinite {
			e.Clip(least, most)
			b := bounded(e)
			points = append(points, chart.Point{X: at, Y: b.Value, Low: b.Low, High: b.High})
		}
	}
	slices.SortFunc(points, func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
	return points
}

// dotsOf compares the means of dots at equal positions, if an audit's figure requests it.
func dotsOf(settings []setting) (list []comparison) {
	var names []string
	for _, s := range settings {
		for _, c := range s.cells {
			for _, f := range c.figures() {
				if f.Means == "" || slices.Contains(names, f.Name) {
					continue
				}
				names = append(names, f.Name)
				compared := comparison{points: func(s *setting) []chart.Point { return s.dots(f.Name) }}
				compared.Title, compared.X, compared.Y = f.Means+" by "+f.X.Title, chartAxis(f.X), chart.Axis{Title: f.Means, Level: f.Limit}
				compared.Caption = strings.ToUpper(compared.Title[:1]) + compared.Title[1:] + ". Values on the x axis are grouped by powers of two. " + meansText
				if f.Limit > 0 {
					compared.Caption += " The dashed line is the highest value that the audit can measure: values there are lower bounds."
				}
				list = append(list, compared)
			}
		}
	}
	return list
}

// dots returns, for each bin of positions, the mean over the cells of the mean of the dots, at the mean
// position. A bin spans a power of two.
func (s *setting) dots(name string) []chart.Point {
	values, places, most := map[int][]float64{}, map[int][]float64{}, math.Inf(1)
	for _, c := range s.cells {
		ofCell := map[int][]float64{}
		for _, f := range c.figures() {
			if f.Name != name {
				continue
			}
			if f.Limit > 0 {
				most = f.Limit
			}
			for _, d := range f.Dots {
				bin := bits.Len(uint(d.X))
				ofCell[bin], places[bin] = append(ofCell[bin], d.Y), append(places[bin], d.X)
			}
		}
		for bin, found := range ofCell {
			values[bin] = append(values[bin], stat.Mean(found, nil))
		}
	}
	byPlace := map[float64][]float64{}
	for bin, list := range values {
		byPlace[stat.Mean(places[bin], nil)] = list
	}
	return means(byPlace, 0, most)
}
