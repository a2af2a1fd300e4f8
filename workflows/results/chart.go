package results

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/workflows/experiment"
)

// Chart shows the outcomes of an audit in several cells, along an axis of the grid or
// against the utility of the models.
type Chart struct {
	// Title names the compared quantity; About explains the chart.
	Title string `json:"title"`
	About string `json:"about"`
	// X and Y describe the axes.
	X string `json:"x"`
	Y string `json:"y"`
	// Values are the axis values in the order of the grid; X of a point is then the number of its value,
	// from 1. Without values, X is a quantity.
	Values []string `json:"values,omitempty"`
	// Level is the value of Y if nothing is found, or 0 if there is no such value; LevelX is the same for X.
	Level  float64 `json:"level,omitempty"`
	LevelX float64 `json:"level_x,omitempty"`
	// Lines are in the order of the grid.
	Lines []ChartLine `json:"lines"`
}

// ChartLine holds cells that differ only in the compared axis.
type ChartLine struct {
	// Name distinguishes the line from others; it is empty for a single line.
	Name string `json:"name"`
	// Joined reports whether the points form a sequence, to be joined by a line.
	Joined bool         `json:"joined"`
	Points []ChartPoint `json:"points"`
}

// ChartPoint is a cell, or a row of replicates. Low and High are the interval of the audit's
// number; both equal the number if the interval is unknown.
type ChartPoint struct {
	// Cell is the name of the cell or row.
	Cell  string  `json:"cell"`
	Label string  `json:"label"`
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Censored is the number of values in a row's mean that are lower bounds, at the limit of the
	// references. It is nil if the values have no limit.
	Censored *int `json:"censored,omitempty"`
}

// measuredCell is a cell, or a row of replicates, with a number from an audit.
type measuredCell struct {
	name, label string
	axes        experiment.Axes
	audits.Interval
	// utility is the utility of the model, or nil if unknown.
	utility *float64
	// censored is ChartPoint.Censored.
	censored *int
}

// known returns a pointer to a number, or nil if ok is false.
func known(number float64, ok bool) *float64 { return audits.When(ok, number) }

// charted is a number that charts compare between cells or rows.
type charted struct {
	// name and level are audits.Measure.Drawn and Level.
	name  string
	level float64
	// point describes a point and the interval around it.
	point string
	cells []measuredCell
}

// charts returns the charts of all audits that measured at least two cells to compare, and then those of replicates.
func (v *view) charts() (list []Chart) {
	for place, d := range all.Audits() {
		for i := range d.Measures {
			if m := &d.Measures[i]; m.Drawn != "" {
				list = append(list, v.chartedCells(place, m).charts()...)
			}
		}
	}
	return append(list, v.rowCharts()...)
}

// charts compares cells along each axis of the grid, and against the utility of the models.
func (q *charted) charts() (list []Chart) {
	for _, path := range q.swept() {
		list = append(list, q.along(path))
	}
	// The first cell is the baseline. Cells that differ from it in the same axes, and in the same fields of
	// these, form a line.
	differing := func(cell, first *measuredCell) (string, bool) { return difference(first.axes, cell.axes), true }
	if c, ok := q.traded(differing); ok {
		c.Lines = lines(c.Lines).fromTheFirst()
		c.About = "A point is a cell; a line joins the cells that differ from the first one in the same fields, in the order of the grid. Points above and to the left hide most at the lowest cost."
		list = append(list, c)
	}
	return list
}

// chartedCells returns the cells with a number from an audit.
func (v *view) chartedCells(place int, m *audits.Measure) *charted {
	q := &charted{name: m.Drawn, level: m.Level, point: "A point is a cell; vertical lines are intervals."}
	for i := range v.cells {
		cell := &v.cells[i]
		if cell.outcomes[place] == nil {
			continue
		}
		if found, ok := m.Interval(cell.outcomes[place]); ok {
			q.cells = append(q.cells, measuredCell{cell.Cell.Cell, cell.Label, cell.Axes, found, known(cell.utility()), nil})
		}
	}
	return q
}

// swept returns the axes with at least two values, in the order of the grid.
func (q *charted) swept() (paths []string) {
	values := map[string][]string{}
	for _, c := range q.cells {
		for _, a := range c.axes {
			if place(&paths, a.Path); !slices.Contains(values[a.Path], string(a.Value)) {
				values[a.Path] = append(values[a.Path], string(a.Value))
			}
		}
	}
	return slices.DeleteFunc(paths, func(path string) bool { return len(values[path]) < 2 })
}

// along compares the cells that have a value of an axis. It draws a line for each combination of the other
// axes' values.
func (q *charted) along(path string) Chart {
	c := Chart{Title: q.name + " by " + path, X: path, Y: q.name, Level: q.level}
	ordered := true
	var lines lines
	for _, cell := range q.cells {
		at := slices.IndexFunc(cell.axes, func(a experiment.Axis) bool { return a.Path == path })
		if at < 0 {
			continue
		}
		others := slices.Delete(slices.Clone(cell.axes), at, at+1)
		x := 1 + place(&c.Values, valueText(cell.axes[at].Value))
		lines.add(axesText(others), ChartPoint{Cell: cell.name, Label: cell.label, X: float64(x), Y: cell.Value, Low: cell.Low, High: cell.High, Censored: cell.censored})
		ordered = ordered && scalar(cell.axes[at].Value)
	}
	if len(lines) == 1 {
		lines[0].Name = ""
	}
	for i := range lines {
		lines[i].Joined = ordered
	}
	c.Lines = lines
	c.About = q.point
	if c.Level > 0 {
		c.About += " The dashed line is the result of an audit that finds nothing."
	}
	return c
}

// traded plots the outcome of an audit against the utility of cells, in percent of the first cell's, as in
// figure 12 of Orekondy et al. 2018. lineOf names the line of a cell, or returns false to omit the cell.
// traded returns false if all cells have equal utility.
func (q *charted) traded(lineOf func(cell, first *measuredCell) (name string, drawn bool)) (Chart, bool) {
	var first *measuredCell
	var lines lines
	differ := false
	for i := range q.cells {
		cell := &q.cells[i]
		if cell.utility == nil {
			continue
		}
		first = cmp.Or(first, cell)
		if name, drawn := lineOf(cell, first); drawn {
			differ = differ || *cell.utility != *first.utility
			y := 100 * *cell.utility / *first.utility
			lines.add(name, ChartPoint{Cell: cell.name, Label: cell.label, X: cell.Value, Y: y, Low: cell.Low, High: cell.High, Censored: cell.censored})
		}
	}
	if !differ {
		return Chart{}, false
	}
	y := fmt.Sprintf("utility, %% of that of %s (%s)", first.name, first.label)
	return Chart{Title: "Utility against " + q.name, X: q.name, Y: y, LevelX: q.level, Lines: lines}, true
}

// utility returns the utility of the cell's model, or false if unknown.
func (v *viewCell) utility() (float64, bool) {
	for d, outcome := range v.measured() {
		if d.Utility != nil {
			return d.Utility(outcome)
		}
	}
	return 0, false
}

// lines holds points by the name of their line, in order of appearance.
type lines []ChartLine

func (l *lines) add(name string, p ChartPoint) {
	i := slices.IndexFunc(*l, func(line ChartLine) bool { return line.Name == name })
	if i < 0 {
		i = len(*l)
		*l = append(*l, ChartLine{Name: name})
	}
	(*l)[i].Points = append((*l)[i].Points, p)
}

// fromTheFirst starts each line at the first point, the baseline.
func (l lines) fromTheFirst() []ChartLine {
	for i := 1; i < len(l); i++ {
		l[i].Joined, l[i].Points = true, append([]ChartPoint{l[0].Points[0]}, l[i].Points...)
	}
	return l
}

// difference names the fields in which a cell differs from the first one, by the last parts of the axes and
// the members of their blocks, such as "defence (augment, modes)".
func difference(first, cell experiment.Axes) string {
	before := map[string]string{}
	for _, a := range first {
		before[a.Path] = string(a.Value)
	}
	var parts []string
	for _, a := range cell {
		if old, there := before[a.Path]; old == string(a.Value) || !there && string(a.Value) == "null" {
			continue
		}
		part := a.Path[strings.LastIndexByte(a.Path, '.')+1:]
		var members map[string]json.RawMessage
		if json.Unmarshal(a.Value, &members) == nil && len(members) > 0 {
			part += " (" + strings.Join(slices.Sorted(maps.Keys(members)), ", ") + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// scalar reports whether a value is neither a block nor a list.
func scalar(value json.RawMessage) bool { return len(value) > 0 && value[0] != '{' && value[0] != '[' }

// valueText formats a value of an axis: "absent" for null, and lists and blocks without brackets and quotes.
func valueText(value json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil || b.String() == "null" {
		return "absent"
	}
	return valueMarks.Replace(b.String())
}

var valueMarks = strings.NewReplacer(`"`, "", "{", "", "}", "", "[", "", "]", "", ":", " ", ",", ", ")

// axesText returns a text such as "data.devices.size 50%, seed 1".
func axesText(axes experiment.Axes) string {
	return strings.Join(lists.Map(axes, func(a experiment.Axis) string { return a.Path + " " + valueText(a.Value) }), ", ")
}

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
	q := &charted{name: m.Drawn, point: "A point is the mean over trainings that differ only in the seed; vertical lines are its 95% intervals by Student's t."}
	if m.Scale == audits.Percent {
		q.point = "A point is the share in all trainings that differ only in the seed; vertical lines are its 95% intervals by Korn and Graubard."
	}
	limited, of := 0, 0
	for _, row := range v.rows {
		found := audits.NewEstimate(row.each(func(c *viewCell) (float64, bool) {
			mean, ok := c.meanOfInserted(m.Name)
			return m.Scale.Of(mean), ok
		}))
		if found != nil && !found.Infinite {
			least, most := m.Range()
			found.Clip(m.Scale.Of(least), m.Scale.Of(most))
			drawn := bounded(found)
			if m.Scale == audits.Percent && found.N > 1 { // as in the tables of rows
				pooled := row.shareOfInserted(m.Name)
				drawn = audits.Interval{Value: 100 * pooled.Share, Low: 100 * pooled.Low, High: 100 * pooled.High}
			}
			atLimit := row.shareOfInserted(m.Name + censoredSuffix)
			q.cells = append(q.cells, measuredCell{row.Name, row.Label, row.Axes, drawn, row.utility(), audits.When(atLimit.Of > 0, atLimit.Count)})
			limited, of = limited+atLimit.Count, of+atLimit.Of
		}
	}
	if limited > 0 {
		q.point += fmt.Sprintf(" %d of %d values are lower bounds, at the limit of the references: their means are lower bounds too, and no interval is certain to cover the true mean.", limited, of)
	}
	return q
}

// censoredSuffix ends the name of a column that tells whether a number of a canary is at the limit of the references.
const censoredSuffix = "_censored"

// shareOfInserted counts the inserted canaries that have a property. Each training is a group.
func (r *viewRow) shareOfInserted(column string) audits.Share {
	var ratio audits.Ratio
	for _, seed := range r.Seeds {
		numbers, count := r.done[seed].inserted(column), 0
		for _, number := range numbers {
			count += int(number)
		}
		if len(numbers) > 0 {
			ratio.Add(count, len(numbers))
		}
	}
	return ratio.ShareOfCanaries()
}

// each returns the numbers of the finished cells that have one, in the order of the seeds.
func (r *viewRow) each(number func(*viewCell) (float64, bool)) (values []float64) {
	for _, seed := range r.Seeds {
		if value, ok := number(r.done[seed]); ok {
			values = append(values, value)
		}
	}
	return values
}

// utility returns the mean utility of the cells, or nil if unknown.
func (r *viewRow) utility() *float64 {
	mean := audits.NewEstimate(r.each((*viewCell).utility))
	if mean == nil {
		return nil
	}
	return numbers.Finite(mean.Mean)
}

// meanOfInserted returns the mean of a column over the inserted canaries, or false if none has a number.
func (v *viewCell) meanOfInserted(column string) (mean float64, ok bool) {
	numbers := v.inserted(column)
	for i := range v.decoded.Canaries { // a fixed order gives the same rounding
		mean += numbers[canaryKey(&v.decoded.Canaries[i])]
	}
	return mean / float64(max(1, len(numbers))), len(numbers) > 0
}

// bounded returns an estimate with its interval. For a single value, Low and High equal the value.
func bounded(e *audits.Estimate) audits.Interval {
	if e.Low == nil {
		return audits.Interval{Value: float64(e.Mean), Low: float64(e.Mean), High: float64(e.Mean)}
	}
	return audits.Interval{Value: float64(e.Mean), Low: *e.Low, High: *e.High}
}

// rowCharts compares rows along the axis with the most values, with lines for the other axes, and against
// utility. It names values and lines as in the labels of rows.
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
	if first := q.cells[0].utility; first == nil || *first == 0 || slices.ContainsFunc(q.cells, func(m measuredCell) bool { return m.utility == nil }) {
		return list
	}
	if c, ok := q.traded(longest.lineOf); ok {
		c.About = "A point is the mean over trainings that differ only in the seed. Points above and to the left memorize least at the lowest cost."
		list = append(list, c)
	}
	return list
}

// lineOf returns the name of the line with a cell, or false if no line has it.
func (c *Chart) lineOf(cell *measuredCell, _ *measuredCell) (name string, drawn bool) {
	for _, l := range c.Lines {
		if slices.ContainsFunc(l.Points, func(p ChartPoint) bool { return p.Cell == cell.name }) {
			return l.Name, true
		}
	}
	return "", false
}

// nameByLabels names each line by the parts common to the labels of its points, and values by the remaining
// parts. It keeps the old names unless the new ones are distinct.
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

// commonParts returns the parts common to the labels of all points, in the order of the first label.
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

// distinct reports whether all names are nonempty and distinct.
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
