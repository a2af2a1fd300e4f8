package results

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// Picture is an audit's picture of one cell after one round.
type Picture struct {
	Cell  string `json:"cell"`
	Label string `json:"label"`
	// Round is the round (sgd: step) after which the model was measured.
	Round int `json:"round"`
	// Number distinguishes pictures of one cell and round, from 0.
	Number int `json:"number"`
	// Title names the subject, Caption gives the measurements in a few words, and Text combines both for
	// readers who cannot see the picture.
	Title   string `json:"title"`
	Caption string `json:"caption"`
	Text    string `json:"text"`
	// PNG is the content of a PNG file.
	PNG []byte `json:"-"`
}

// Shown selects pictures of a run. The zero value selects all.
type Shown struct {
	// Cell is the name of one cell, or empty for all cells.
	Cell string
	// Round selects the pictures after a round. 0 selects those after all rounds.
	Round int
}

// LoadPictures reads the pictures of a run, cell by cell and round by round. While the run is in progress,
// rounds that are not yet measured have no pictures.
func LoadPictures(ctx context.Context, archive *storage.Archive, run *runs.Run, s Shown) ([]Picture, error) {
	spec, err := runs.Experiment(run)
	if err != nil || !slices.ContainsFunc(spec.Cells, asksForPictures) {
		return []Picture{}, nil // no plan is needed
	}
	read, err := runs.ReadPlanned(ctx, archive, run)
	if err != nil || read.Unreadable != nil {
		return []Picture{}, err
	}
	p, pictures := read.Plan, []Picture{}
	for i := range p.Cells {
		c := &read.Spec.Cells[i]
		if s.Cell != "" && s.Cell != c.Name || !asksForPictures(*c) {
			continue
		}
		if err := read.CheckReports(ctx, archive, &p.Cells[i]); err != nil {
			return nil, err
		}
		reader := pictureReader{archive: archive, report: p.Nodes[p.Cells[i].Report.Key], cell: c.Name, label: c.Label}
		found, err := reader.readAll(ctx, c.Experiment.Measured(), s.Round)
		if err != nil {
			return nil, fmt.Errorf("run %s, cell %s, %w", run.ID, c.Name, err)
		}
		pictures = append(pictures, found...)
	}
	return pictures, nil
}

// asksForPictures reports whether a cell has an audit with pictures.
func asksForPictures(c experiment.Cell) bool {
	return slices.ContainsFunc(c.Experiment.Audit.Requested(), func(m experiment.Method) bool { return hasPictures(m.Description) })
}

// pictureReader reads the pictures of one cell.
type pictureReader struct {
	archive *storage.Archive
	// report is the node that depends on every measurement of the cell.
	report      *plan.Node
	cell, label string
}

// readAll returns the pictures after some rounds or, unless only is 0, after one of them.
func (r *pictureReader) readAll(ctx context.Context, rounds []int, only int) ([]Picture, error) {
	var pictures []Picture
	for _, round := range rounds {
		if only != 0 && only != round {
			continue
		}
		found, err := r.read(ctx, round)
		if err != nil {
			return nil, fmt.Errorf("pictures after round %d: %w", round, err)
		}
		pictures = append(pictures, found...)
	}
	return pictures, nil
}

// read returns the pictures after a round.
func (r *pictureReader) read(ctx context.Context, round int) ([]Picture, error) {
	var found []Picture
	for _, d := range all.Audits() {
		if !hasPictures(&d) {
			continue
		}
		outcome := d.Outcome()
		there, err := r.outcome(ctx, &d, round, outcome)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		if !there {
			continue
		}
		for _, p := range d.Pictures(outcome) {
			found = append(found, Picture{
				Cell: r.cell, Label: r.label, Round: round, Number: len(found), Title: p.Title, Caption: captionOf(&d, outcome),
				Text: fmt.Sprintf("%s, %s, after round %d: %s: %s", r.cell, r.label, round, p.Title, p.Text), PNG: p.PNG,
			})
		}
	}
	return found, nil
}

// hasPictures reports whether an audit has pictures of each model that it measures.
func hasPictures(d *audits.Description) bool { return d.Pictures != nil && d.OutcomeBlob != "" }

// outcome reads an audit's outcome after a round. It returns false if the outcome is not yet measured, or
// not requested.
func (r *pictureReader) outcome(ctx context.Context, d *audits.Description, round int, into audits.Outcome) (bool, error) {
	key := r.report.Input(reports.AuditInput(d.Name, round))
	if key == (storage.Key{}) {
		return false, nil
	}
	data, err := readOutput(ctx, r.archive, key, d.OutcomeBlob)
	if err != nil || data == nil {
		return false, err
	}
	return true, json.Unmarshal(data, into)
}

// captionOf returns the values of an audit's columns, such as "inverted % 3.0, Frechet 12.1".
func captionOf(d *audits.Description, v audits.Outcome) string {
	return strings.Join(lists.Map(d.TableMeasures(), func(m *audits.Measure) string { return m.Header + " " + d.Cell(m, v) }), ", ")
}

// pictureGrid arranges the pictures of the cells as in figure 3 of Augenstein et al. 2020: a column for
// each value of a cell's last axis, and a row for each combination of its other values.
type pictureGrid struct {
	About   string
	Columns int
	Cells   []picturedCell
}

// picturedCell is a cell with its place in the grid, from 1.
type picturedCell struct {
	Name, Label string
	Row, Column int
	Series      []pictureSeries
}

// pictureSeries holds the pictures of one audit of a cell: the newest, and the earlier ones ascending by round.
type pictureSeries struct {
	Newest  htmlPicture
	Earlier []htmlPicture
}

// htmlPicture is a picture within the page.
type htmlPicture struct {
	Caption, Text, Source string
}

// newPictureGrid arranges pictures by cell. It returns nil without pictures.
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
		n := max(0, len(c.Axes)-1)
		others, last := c.Axes[:n], c.Axes[n:] // pictures are side by side along the last axis
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

// text formats the values of axes.
func text(axes experiment.Axes) string {
	var b strings.Builder
	for _, a := range axes {
		fmt.Fprintf(&b, "%s=%s\n", a.Path, a.Value)
	}
	return b.String()
}

// place returns the index of a value in a list, to which it appends a new value.
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
		paths := lists.Map(others, func(a experiment.Axis) string { return a.Path })
		parts = append(parts, "One below the other: those of "+strings.Join(paths, ", ")+".")
	}
	return strings.Join(parts, " ")
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
