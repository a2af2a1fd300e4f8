package results

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/workflows/experiment"
)

func axisOf(path string, value int) experiment.Axis {
	return experiment.Axis{Path: path, Value: json.RawMessage(fmt.Sprint(value))}
}

// For any cells that a grid leaves out, those in a row differ in the last axis alone, those
// in a column have its value, and no two are in one place.
func TestPictureGridAlignsCellsByAxes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var cells []viewCell
		var pictures []Picture
		for first := range rapid.IntRange(1, 3).Draw(t, "first") {
			for second := range rapid.IntRange(1, 3).Draw(t, "second") {
				if rapid.IntRange(0, 3).Draw(t, "left out") == 0 {
					continue
				}
				name := fmt.Sprintf("%d/%d", first, second)
				cells = append(cells, viewCell{Cell: &Cell{Cell: name, Axes: experiment.Axes{axisOf("a", first), axisOf("b", second)}}})
				pictures = append(pictures, Picture{Cell: name, Round: 1})
			}
		}
		g := newPictureGrid(cells, pictures)
		if len(cells) == 0 {
			if g != nil {
				t.Fatalf("a grid of nothing: %+v", g)
			}
			return
		}
		for i, c := range g.Cells {
			if c.Row < 1 || c.Column < 1 || c.Column > g.Columns {
				t.Fatalf("%+v of %d columns", c, g.Columns)
			}
			for _, d := range g.Cells[:i] {
				if (c.Row == d.Row) != (c.Name[0] == d.Name[0]) || (c.Column == d.Column) != (c.Name[2] == d.Name[2]) {
					t.Fatalf("%s in row %d, column %d and %s in row %d, column %d", c.Name, c.Row, c.Column, d.Name, d.Row, d.Column)
				}
			}
		}
	})
}

func TestTheReportShowsPicturesOfEveryRound(t *testing.T) {
	t.Parallel()
	r := &Results{Run: "r", Cells: []Cell{
		{Cell: "c01", Label: "badly", Axes: experiment.Axes{axisOf("data.faults", 0), axisOf("data.select", 0)}},
		{Cell: "c02", Label: "well", Axes: experiment.Axes{axisOf("data.faults", 0), axisOf("data.select", 1)}},
	}}
	for _, cell := range []string{"c01", "c02"} {
		for _, round := range []int{5, 10, 15} {
			r.Pictures = append(r.Pictures, Picture{
				Cell: cell, Round: round, Title: "generated images", Caption: "inverted % 3.0", Text: `"a" <b>`, PNG: fmt.Appendf(nil, "%s %d", cell, round),
			})
		}
	}
	got := page(t, r)
	for _, want := range []string{
		"Side by side: the values of data.select. One below the other: those of data.faults.",
		`style="grid-template-columns: repeat(2, minmax(0, 1fr))"`, `<section style="grid-row: 1; grid-column: 2">`,
		`<img src="data:image/png;base64,YzAxIDE1" alt="&#34;a&#34; &lt;b&gt;"><figcaption>generated images after round 15: inverted % 3.0`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	// The newest first, then the others as they came.
	if newest, first, second := strings.Index(got, "round 15"), strings.Index(got, "round 5"), strings.Index(got, "round 10"); newest > first || first > second {
		t.Errorf("round 15 at %d, 5 at %d, 10 at %d", newest, first, second)
	}
	if n := strings.Count(got, "<img "); n != 6 {
		t.Errorf("%d pictures, want 6", n)
	}
	if strings.Contains(page(t, sample()), "side by side") {
		t.Error("a run without pictures has a heading for them")
	}
}
