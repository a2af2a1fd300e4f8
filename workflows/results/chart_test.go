package results

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/chart"
	"coalmine/internal/must"
	"coalmine/tasks/audits"
	"coalmine/workflows/experiment"
)

// attacked is a cell whose devices were named at the given multiple of chance, by a model of
// the given accuracy. Axes are pairs of a path and its JSON.
func attacked(name string, recall, factor float64, axes ...string) Cell {
	c := Cell{Cell: name, Label: strings.Join(axes, " "), Status: Done, Report: reported(fmt.Sprintf(
		`{"utility": {"recall_at_1": %v, "perplexity": 9, "tokens": 99},
		"audit": {"deanonymization": {"devices": 9, "items": 99, "confidence": 0.95, "attacks": [
			{"attack": "mlp", "users": 9, "ap": %v, "share": 0.05, "chance": 0.05, "factor": %v, "factor_interval": {"low": %v, "high": %v}}]}}}`,
		recall, factor/20, factor, factor-0.5, factor+0.5))}
	for i := 0; i < len(axes); i += 2 {
		c.Axes = append(c.Axes, experiment.Axis{Path: axes[i], Value: json.RawMessage(axes[i+1])})
	}
	return c
}

func charts(t *testing.T, cells ...Cell) []Chart {
	t.Helper()
	v := must.Get((&Results{Cells: cells}).view())(t)
	return v.charts()
}

// described returns the points of a chart as text: "defence: c01 1,100; c02 2,50".
func described(c Chart) (lines []string) {
	for _, l := range c.Lines {
		var points []string
		for _, p := range l.Points {
			points = append(points, fmt.Sprintf("%s %g,%g", p.Cell, p.X, p.Y))
		}
		lines = append(lines, l.Name+": "+strings.Join(points, "; "))
	}
	return lines
}

func check(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEachAxisHasOneChart(t *testing.T) {
	t.Parallel()
	list := charts(t,
		attacked("c01", 0.2, 3, "data.devices.size", "1", "seed", "1"),
		attacked("c02", 0.2, 5, "data.devices.size", "1", "seed", "2"),
		attacked("c03", 0.2, 8, "data.devices.size", `"50%"`, "seed", "1"),
		Cell{Cell: "c04", Status: Pending, Axes: experiment.Axes{{Path: "seed", Value: json.RawMessage("2")}}},
	)
	if len(list) != 2 {
		t.Fatalf("%d charts, want one for each axis", len(list))
	}
	check(t, "by size", described(list[0]), "seed 1: c01 1,3; c03 2,8", "seed 2: c02 1,5")
	check(t, "sizes", list[0].Values, "1", "50%")
	check(t, "by seed", described(list[1]), "data.devices.size 1: c01 1,3; c02 2,5", "data.devices.size 50%: c03 1,8")
	if p := list[0].Lines[0].Points[1]; p.Low != 7.5 || p.High != 8.5 || list[0].Level != 1 || !list[0].Lines[0].Joined {
		t.Errorf("the interval is %g to %g, the level of chance %g", p.Low, p.High, list[0].Level)
	}
}

// Figure 12 of Orekondy et al. 2018: a line a defence, from the cell without any.
func TestChartUtilityIsRelativeToFirstCell(t *testing.T) {
	t.Parallel()
	const defence, noise = "data.devices.defence", "training.client.noise"
	list := charts(t,
		attacked("c1", 0.2, 16, defence, "null"),
		attacked("c2", 0.1, 8, defence, `{"augment":1}`),
		attacked("c3", 0.05, 4, defence, "{\n \"augment\": 2\n}"),
		attacked("c4", 0.15, 2, defence, `{"augment":1,"modes":30}`),
		attacked("c5", 0.25, 12, noise, "0.1"),
		attacked("c6", 0, 1, noise, "9"), // useless
	)
	c := list[len(list)-1]
	check(t, "defences", described(c),
		": c1 16,100", "defence (augment): c1 16,100; c2 8,50; c3 4,25", "defence (augment, modes): c1 16,100; c4 2,75", "noise: c1 16,100; c5 12,125")
	if c.LevelX != 1 || c.Level != 0 || c.Y != "utility, % of that of c1 (data.devices.defence null)" {
		t.Errorf("%+v", c)
	}
	check(t, "values", list[0].Values, "absent", "augment 1", "augment 2", "augment 1, modes 30")
	if list[0].Lines[0].Joined {
		t.Error("blocks have no order, and a line joins them")
	}
}

func TestSingleOrEqualModelsHaveNoUtilityChart(t *testing.T) {
	t.Parallel()
	if list := charts(t, attacked("c01", 0.2, 3)); len(list) != 0 {
		t.Errorf("one cell has %+v", list)
	}
	same := charts(t, attacked("c01", 0.2, 3, "audit.deanonymization.sums", "1"), attacked("c02", 0.2, 2, "audit.deanonymization.sums", "2"))
	if len(same) != 1 || same[0].Values == nil {
		t.Errorf("equal models are compared by their utility: %+v", same)
	}
}

func TestChartsAreOnThePageAndInJSON(t *testing.T) {
	t.Parallel()
	r := &Results{Cells: []Cell{
		attacked("c01", 0.2, 16, "training.client.compress", "null"),
		attacked("c02", 0.1, 8, "training.client.compress", `{"bits":8}`),
		attacked("c03", 0.1, 4, "training.client.compress", `{"keep":"0.1%"}`),
	}}
	got := page(t, r)
	for _, want := range []string{
		`<title>c02, training.client.compress {&#34;bits&#34;:8}: named AP, times chance 8 (7.5 to 8.5)</title>`,
		`named AP, times chance by training.client.compress. A point is a cell`, `>named AP, times chance</text>`, `>client compress</text>`,
		`>absent</text>`, `>compress (bits)</text>`, `>compress (keep)</text>`,
		`c03, training.client.compress {&#34;keep&#34;:&#34;0.1%&#34;}: named AP, times chance 4 (3.5 to 4.5), utility 50.0%</title>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	var decoded struct {
		Charts []Chart `json:"charts"`
	}
	if err := json.Unmarshal([]byte(written(t, r, "json")), &decoded); err != nil || len(decoded.Charts) != 2 || decoded.Charts[1].Lines[1].Points[1].Y != 50 {
		t.Errorf("JSON has the charts %+v, error %v", decoded, err)
	}
}

func TestLongAxisValuesAreWrapped(t *testing.T) {
	t.Parallel()
	r := &Results{Cells: []Cell{
		attacked("c01", 0.2, 16, "training.privacy", `{"clip":1,"delta":0.001,"noise_multiplier":0.1}`),
		attacked("c02", 0.2, 16, "training.privacy", `{"clip":1,"delta":0.001,"noise_multiplier":1}`),
	}}
	for _, want := range []string{">clip 1, delta 0.001,</text>", ">noise_multiplier 0.1</text>", ">noise_multiplier 1</text>"} {
		if !strings.Contains(page(t, r), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// stages is a cell with the matrix of an attack that could name nobody in one stage.
func stages() Cell {
	return Cell{Cell: "c01", Status: Done, Report: reported(`{"audit": {"deanonymization": {"devices": 9, "items": 99, "confidence": 0.95,
		"stages": [{"from": 1, "to": 5}, {"from": 6, "to": 10}],
		"attacks": [{"attack": "mlp", "users": 9, "ap": 0.5, "share": 0.05, "chance": 0.1, "factor": 5,
			"matrix": [[{"users": 9, "ap": 0.9, "factor": 9.25}, {"users": 9, "ap": 0.2, "factor": 2}], [{"users": 9, "ap": 0.1, "factor": 1}, {"users": 0, "ap": 0, "factor": 0}]]}]}}}`)}
}

func TestStagesAreAHeatMap(t *testing.T) {
	t.Parallel()
	r := &Results{Cells: []Cell{stages()}}
	got := page(t, r)
	for _, want := range []string{
		`<title>1, 1: 9.25</title>`, `>9.25</text>`, `<title>1, 6: 2</title>`, `fill="#ffffff"><title>6, 6: none</title>`,
		">trained on rounds from</text>", ">tried on rounds from</text>", "<figcaption>Stages of the training: named AP by MLP, times chance ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if csv := written(t, r, "csv"); !strings.Contains(csv, ",9.25 2; 1 -,") {
		t.Errorf("CSV lacks the matrix:\n%s", csv)
	}
	if strings.Contains(got, "All cells together") {
		t.Error("one cell is compared with itself")
	}
}

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
func TestRowChartsMatchTheirCanaries(t *testing.T) {
	t.Parallel()
	held := heldCanaries(t, replicated(t))
	c := titled(t, replicatedCharts(t), "canaries memorized by random sampling, % by data.partition")
	points := 0
	for _, l := range c.Lines {
		for _, p := range l.Points {
			var ratio audits.Ratio
			for seed := uint64(1); seed <= 3; seed++ {
				memorized := 0
				for _, yes := range held[p.Cell][seed] {
					if yes {
						memorized++
					}
				}
				if n := len(held[p.Cell][seed]); n > 0 {
					ratio.Add(memorized, n)
				}
			}
			want := ratio.ShareOfCanaries()
			if math.Abs(p.Y-100*want.Share)+math.Abs(p.Low-100*want.Low)+math.Abs(p.High-100*want.High) > 1e-9 {
				t.Errorf("row %s: %+v, by its canaries %+v", p.Cell, p, want)
			}
			points++
		}
	}
	if points != 4 {
		t.Errorf("%d rows are drawn", points)
	}
	if mean := titled(t, replicatedCharts(t), "mean exposure of canaries, bits by data.partition"); !strings.Contains(mean.About, "34 of 132 values are lower bounds") {
		t.Errorf("exposures at the limit of the references are not counted: %s", mean.About)
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
func TestAmbiguousLabelsKeepAxisNames(t *testing.T) {
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
