package results

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"coalmine/internal/chart"
	"coalmine/internal/must"
	"coalmine/tasks/audits"
)

// titled is the chart of that title.
func titled(t *testing.T, list []Chart, title string) Chart {
	t.Helper()
	at := slices.IndexFunc(list, func(c Chart) bool { return c.Title == title })
	if at < 0 {
		t.Fatalf("no chart is called %q", title)
	}
	return list[at]
}

func replicatedCharts(t *testing.T) []Chart {
	t.Helper()
	v := must.Get(replicated(t).view())(t)
	return v.charts()
}

// By the definition, from the file of canaries.
func TestRowsAreDrawnAsTheirCanariesSay(t *testing.T) {
	t.Parallel()
	held := heldCanaries(t, replicated(t))
	c := titled(t, replicatedCharts(t), "canaries memorized by random sampling, % by data.partition")
	points := 0
	for _, l := range c.Lines {
		for _, p := range l.Points {
			var shares []float64
			for seed := uint64(1); seed <= 3; seed++ {
				memorized := 0
				for _, yes := range held[p.Cell][seed] {
					if yes {
						memorized++
					}
				}
				if n := len(held[p.Cell][seed]); n > 0 {
					shares = append(shares, 100*float64(memorized)/float64(n))
				}
			}
			clipped := audits.NewEstimate(shares)
			clipped.Clip(0, 100)
			want := bounded(clipped)
			if math.Abs(p.Y-want.Value)+math.Abs(p.Low-want.Low)+math.Abs(p.High-want.High) > 1e-9 {
				t.Errorf("row %s: %+v, by its canaries %+v", p.Cell, p, want)
			}
			points++
		}
	}
	if points != 4 {
		t.Errorf("%d rows are drawn", points)
	}
}

func TestChartsOfRowsAreNamedByLabels(t *testing.T) {
	t.Parallel()
	list := replicatedCharts(t)
	for title, want := range map[string]struct{ lines, values []string }{
		"mean exposure of canaries, bits by data.partition": {[]string{"b=5", "b=8"}, []string{"iid", "by-user"}},
		"Utility against mean exposure of canaries, bits":   {[]string{"b=5", "b=8"}, nil},
	} {
		c := titled(t, list, title)
		var names []string
		for _, l := range c.Lines {
			names = append(names, l.Name)
		}
		if !slices.Equal(names, want.lines) || !slices.Equal(c.Values, want.values) {
			t.Errorf("%s: lines %q, values %q; want %q and %q", title, names, c.Values, want.lines, want.values)
		}
	}
	if len(list) != 6 {
		t.Errorf("%d charts, want two of each of three columns", len(list))
	}
}

// A row's utility is the mean of its trainings', relative to that of the first row.
func TestUtilityOfRowsIsTheMeanOfTheirCells(t *testing.T) {
	t.Parallel()
	r := replicated(t)
	recall := map[string][]float64{}
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Report != nil {
			var utility struct {
				RecallAt1 float64 `json:"recall_at_1"`
			}
			must.Do(t, json.Unmarshal(c.Utility, &utility))
			recall[c.Row.Name] = append(recall[c.Row.Name], utility.RecallAt1)
		}
	}
	mean := func(row string) (total float64) {
		for _, x := range recall[row] {
			total += x / float64(len(recall[row]))
		}
		return total
	}
	list := replicatedCharts(t)
	c, exposures := titled(t, list, "Utility against mean exposure of canaries, bits"), map[string]float64{}
	for _, l := range titled(t, list, "mean exposure of canaries, bits by data.partition").Lines {
		for _, p := range l.Points {
			exposures[p.Cell] = p.Y
		}
	}
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if want := 100 * mean(p.Cell) / mean("r01"); math.Abs(p.Y-want) > 1e-9 || p.X != exposures[p.Cell] {
				t.Errorf("row %s is at %g, %g, want %g, %g", p.Cell, p.X, p.Y, exposures[p.Cell], want)
			}
		}
	}
}

// Without replicates a figure of canaries' means is of one training, and there is none.
func TestCellsWithoutReplicatesHaveNoChartsOfRows(t *testing.T) {
	t.Parallel()
	r := replicated(t)
	for i := range r.Cells {
		r.Cells[i].Row = nil
	}
	v := must.Get(r.view())(t)
	if list := v.charts(); len(list) > 0 {
		t.Errorf("%d charts, the first %q", len(list), list[0].Title)
	}
}

// Values keep the names of their axis where labels do not tell them apart, and the axis with the
// most values is the one that is drawn.
func TestAmbiguousLabelsNameNothing(t *testing.T) {
	t.Parallel()
	what := &charted{name: "bits"}
	for i := range 6 {
		label, axes := []string{"SGD, b=1", "FedAvg, b=1"}[i/3], axesOf(fmt.Sprintf("a=%d", i/3), fmt.Sprintf("b=%d", i%3))
		what.cells = append(what.cells, measuredCell{name: fmt.Sprint(i), label: label, axes: axes, Interval: audits.Interval{Value: 1, Low: 1, High: 1}})
	}
	list := what.rowCharts()
	if len(list) != 1 {
		t.Fatalf("%d charts of rows without utility", len(list))
	}
	if c := list[0]; c.X != "b" || !slices.Equal(c.Values, []string{"0", "1", "2"}) || c.Lines[0].Name != "SGD, b=1" || c.Lines[1].Name != "FedAvg, b=1" {
		t.Errorf("by %s: values %q, lines %q and %q", c.X, c.Values, c.Lines[0].Name, c.Lines[1].Name)
	}
}

// Points of lines that nothing joins are told apart by their markers, which the legend names.
func TestPointsWithoutLinesHaveMarkers(t *testing.T) {
	t.Parallel()
	c := titled(t, replicatedCharts(t), "Utility against mean exposure of canaries, bits")
	d := c.drawing()
	if len(d.Series) != 2 || d.Series[0].Name != "b=5" || d.Series[0].Style == d.Series[1].Style || d.Series[0].Kind != chart.Dots || !(d.Series[0].Points[0].Left < d.Series[0].Points[0].Right) {
		t.Errorf("%+v", d.Series)
	}
}
