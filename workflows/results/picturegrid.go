package results

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"coalmine/workflows/experiment"
)

// pictureGrid arranges the pictures of the cells as in figure 3 of Augenstein et al. 2020: a column
// for each value of a cell's last axis, a row for each combination of its other values.
type pictureGrid struct {
	About   string
	Columns int
	Cells   []picturedCell
}

// picturedCell is a cell at its place in the grid, from 1.
type picturedCell struct {
	Name, Label string
	Row, Column int
	Series      []pictureSeries
}

// pictureSeries holds the pictures of one audit of a cell: the newest, and earlier ones in order of
// their rounds.
type pictureSeries struct {
	Newest  htmlPicture
	Earlier []htmlPicture
}

// htmlPicture is a picture within the page.
type htmlPicture struct {
	Caption, Text, Source string
}

// newPictureGrid arranges pictures by cell; it returns nil without pictures.
func newPictureGrid(cells []viewCell, pictures []Picture) *pictureGrid {
	byCell := map[string][]Picture{}
	for _, p := range pictures {
		byCell[p.Cell] = append(byCell[p.Cell], p)
	}
	g := new(pictureGrid)
	var rows, columns []string
	for i := range cells {
		c := &cells[i]
		if len(byCell[c.Cell.Cell]) == 0 {
			continue
		}
		others, last := splitAxes(c.Axes)
		g.Cells = append(g.Cells, picturedCell{
			Name: c.Cell.Cell, Label: c.Label, Series: seriesOf(byCell[c.Cell.Cell]),
			Row: 1 + place(&rows, text(others)), Column: 1 + place(&columns, text(last)),
		})
		g.About = aboutAxes(others, last)
	}
	g.Columns = len(columns)
	if len(g.Cells) == 0 {
		return nil
	}
	return g
}

// splitAxes separates the last axis, along which pictures are placed side by side.
func splitAxes(axes experiment.Axes) (others, last experiment.Axes) {
	n := max(0, len(axes)-1)
	return axes[:n], axes[n:]
}

// text formats the values of axes.
func text(axes experiment.Axes) string {
	var b strings.Builder
	for _, a := range axes {
		fmt.Fprintf(&b, "%s=%s\n", a.Path, a.Value)
	}
	return b.String()
}

// place returns the index of a value in a list; it appends a new value.
func place(list *[]string, value string) int {
	if !slices.Contains(*list, value) {
		*list = append(*list, value)
	}
	return slices.Index(*list, value)
}

// aboutAxes describes the rows and columns.
func aboutAxes(others, last experiment.Axes) string {
	var parts []string
	if len(last) > 0 {
		parts = append(parts, "Side by side: the values of "+last[0].Path+".")
	}
	if len(others) > 0 {
		parts = append(parts, "One below the other: those of "+strings.Join(paths(others), ", ")+".")
	}
	return strings.Join(parts, " ")
}

func paths(axes experiment.Axes) (list []string) {
	for _, a := range axes {
		list = append(list, a.Path)
	}
	return list
}

// seriesOf groups the pictures of one cell, which ascend by round.
func seriesOf(pictures []Picture) []pictureSeries {
	var titles []string
	var series []pictureSeries
	for _, p := range pictures {
		at := place(&titles, p.Title)
		shown := htmlPicture{
			Caption: fmt.Sprintf("%s after round %d: %s", p.Title, p.Round, p.Caption), Text: p.Text,
			Source: "data:image/png;base64," + base64.StdEncoding.EncodeToString(p.PNG),
		}
		if at == len(series) {
			series = append(series, pictureSeries{Newest: shown})
			continue
		}
		s := &series[at]
		s.Earlier, s.Newest = append(s.Earlier, s.Newest), shown
	}
	return series
}
