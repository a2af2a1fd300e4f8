package results

import (
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/numbers"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
)

// rowCharts compares rows of replicates by the audits' outcomes of their canaries: along an axis of
// the grid, and against the utility of the models.
func (v *view) rowCharts() (list []Chart) {
	for _, d := range all.Audits() {
		for i := range d.Canary {
			if m := &d.Canary[i]; m.Drawn != "" {
				list = append(list, v.chartedRows(m).rowCharts()...)
			}
		}
	}
	return list
}

// chartedRows returns the rows whose canaries have a number in a column.
func (v *view) chartedRows(m *audits.Measure) *charted {
	q := &charted{name: m.Drawn, point: "A point is the mean over trainings that differ in the seed alone; vertical lines are its 95% intervals by Student's t."}
	for _, row := range v.rows {
		found := audits.NewEstimate(row.each(func(c *viewCell) (float64, bool) {
			mean, ok := c.meanOfInserted(m.Name)
			return m.Scale.Of(mean), ok
		}))
		if found != nil && !found.Infinite {
			least, most := m.Range()
			found.Clip(m.Scale.Of(least), m.Scale.Of(most))
			q.cells = append(q.cells, measuredCell{row.Name, row.Label, row.Axes, bounded(found), row.utility()})
		}
	}
	return q
}

// each returns a number of the finished cells that have it, in the order of the seeds.
func (r *viewRow) each(number func(*viewCell) (float64, bool)) (values []float64) {
	for _, seed := range r.Seeds {
		if value, ok := number(r.done[seed]); ok {
			values = append(values, value)
		}
	}
	return values
}

// utility returns the mean utility of the cells; nil if unknown.
func (r *viewRow) utility() *float64 {
	mean := audits.NewEstimate(r.each((*viewCell).utility))
	if mean == nil {
		return nil
	}
	return numbers.Finite(mean.Mean)
}

// meanOfInserted returns the mean of a column over the inserted canaries; false if none has a
// number.
func (v *viewCell) meanOfInserted(column string) (mean float64, ok bool) {
	numbers := v.inserted(column)
	for i := range v.decoded.Canaries { // a fixed order keeps the last digits
		mean += numbers[canaryKey(&v.decoded.Canaries[i])]
	}
	return mean / float64(max(1, len(numbers))), len(numbers) > 0
}

// bounded returns an estimate with its interval; for one value, low and high equal the value.
func bounded(e *audits.Estimate) audits.Interval {
	if e.Low == nil {
		return audits.Interval{Value: float64(e.Mean), Low: float64(e.Mean), High: float64(e.Mean)}
	}
	return audits.Interval{Value: float64(e.Mean), Low: *e.Low, High: *e.High}
}

// rowCharts compares rows along the axis with the most values, with lines for the other axes, and
// against utility. Values and lines are named as in the labels of rows.
func (q *charted) rowCharts() (list []Chart) {
	var longest Chart
	for _, path := range q.swept() {
		if c := q.along(path); len(c.Values) > len(longest.Values) {
			longest = c
		}
	}
	if longest.Values == nil {
		return nil
	}
	longest.nameByLabels()
	list = append(list, longest)
	if c, ok := q.againstUtility(&longest); ok {
		list = append(list, c)
	}
	return list
}

// againstUtility moves the points of a chart along an axis to their utility, in percent of the
// first one's. It returns false if all are equal.
func (q *charted) againstUtility(along *Chart) (Chart, bool) {
	first := q.cells[0]
	c := Chart{Title: "Utility against " + q.name, X: q.name, Y: fmt.Sprintf("utility, %% of that of %s (%s)", first.name, first.label)}
	c.About = "A point is the mean over trainings that differ in the seed alone. Points above and to the left memorize least at the least cost."
	differ := false
	for _, l := range along.Lines {
		moved := ChartLine{Name: l.Name}
		for _, p := range l.Points {
			utility, ok := q.relativeUtility(p.Cell)
			if !ok {
				return c, false
			}
			p.X, p.Y = p.Y, utility
			differ = differ || utility != 100
			moved.Points = append(moved.Points, p)
		}
		c.Lines = append(c.Lines, moved)
	}
	return c, differ
}

// relativeUtility returns the utility of a cell in percent of the first one's; false if unknown.
func (q *charted) relativeUtility(cell string) (float64, bool) {
	at := slices.IndexFunc(q.cells, func(m measuredCell) bool { return m.name == cell })
	first, other := q.cells[0].utility, q.cells[at].utility
	if first == nil || other == nil || *first == 0 {
		return 0, false
	}
	return 100 * *other / *first, true
}

// nameByLabels names lines by the common part of the labels of all their points, and values by the
// remaining parts. It leaves names unchanged unless the new ones are distinct.
func (c *Chart) nameByLabels() {
	names, values := make([]string, len(c.Lines)), make([]string, len(c.Values))
	for i, l := range c.Lines {
		common := commonParts(l.Points)
		names[i] = strings.Join(common, ", ")
		for _, p := range l.Points {
			remaining := slices.DeleteFunc(labelParts(p.Label), func(part string) bool { return slices.Contains(common, part) })
			values[int(p.X)-1] = strings.Join(remaining, ", ")
		}
	}
	if distinct(values) {
		c.Values = values
	}
	for i := range c.Lines {
		if len(c.Lines) > 1 && distinct(names) {
			c.Lines[i].Name = names[i]
		}
	}
}

// commonParts returns the parts common to the labels of all points, in the order of the first.
func commonParts(points []ChartPoint) (parts []string) {
	parts = labelParts(points[0].Label)
	for _, p := range points[1:] {
		others := labelParts(p.Label)
		parts = slices.DeleteFunc(parts, func(part string) bool { return !slices.Contains(others, part) })
	}
	return parts
}

// labelParts splits "iid, SGD, b=32" into iid, SGD and b=32.
func labelParts(label string) []string { return strings.Split(label, ", ") }

// distinct reports whether names are nonempty and distinct.
func distinct(names []string) bool {
	seen := map[string]bool{"": true}
	for _, name := range names {
		if seen[name] {
			return false
		}
		seen[name] = true
	}
	return true
}
