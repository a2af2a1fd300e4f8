package results

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"coalmine/internal/must"
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

func TestEachAxisIsDrawnByItself(t *testing.T) {
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
func TestUtilityIsThatOfTheFirstCell(t *testing.T) {
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

func TestNothingIsComparedWithItself(t *testing.T) {
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
		`named AP, times chance by training.client.compress. A point is a cell`, `>named AP, times chance</text>`, `>training.client.compress</text>`,
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

func TestLongValuesHaveSeveralLines(t *testing.T) {
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
