package dashboards

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/chart"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/workflows/control"
	"coalmine/workflows/results"
)

// figureList is the answer to GET /runs/{run}/figures: the captions, without the files.
type figureList struct {
	Figures []results.Figure `json:"figures"`
}

func (s *Server) listFigures(r *http.Request) (figureList, error) {
	figures, err := s.figures(r)
	return figureList{figures}, err
}

// showFigure sends one figure, which may change when more cells are done.
func (s *Server) showFigure(w http.ResponseWriter, r *http.Request) error {
	format, err := figureFormatOf(r)
	if err != nil {
		return err
	}
	number, err := positive("number", r.PathValue("number"), 0)
	if err != nil {
		return err
	}
	figures, err := s.figures(r)
	if err != nil {
		return err
	}
	if number >= len(figures) {
		return fmt.Errorf("run %s has %s, numbered from 0; there is no figure %d (GET figures lists them): %w", r.PathValue("run"), readable.Count(len(figures), "figure"), number, storage.ErrNotFound)
	}
	return format.send(w, figures[number].Chart)
}

// figures returns the figures of the HTML report.
func (s *Server) figures(r *http.Request) ([]results.Figure, error) {
	found, err := s.api.Results(r.Context(), runName(r))
	if err != nil {
		return nil, err
	}
	figures, err := found.Figures()
	if err != nil {
		return nil, fmt.Errorf("figures of run %s: %w", found.Run, err)
	}
	return figures, nil
}

// figureTypes are the media types of figures and of their numbers.
var figureTypes = map[string]string{"svg": "image/svg+xml", "pdf": "application/pdf", "png": "image/png", "csv": "text/csv; charset=utf-8"}

// figureFormat is a form of a figure that a request asks for.
type figureFormat struct {
	name  string
	width chart.Width
}

// figureFormatOf reads the parameters format and width.
func figureFormatOf(r *http.Request) (f figureFormat, err error) {
	f.name = cmp.Or(r.URL.Query().Get("format"), "svg")
	if names := append(slices.Clone(chart.Formats), "csv"); !slices.Contains(names, f.name) {
		return f, fmt.Errorf("format %.40q %w: expected one of %s", f.name, control.ErrInput, strings.Join(names, ", "))
	}
	f.width, err = chart.WidthNamed(cmp.Or(r.URL.Query().Get("width"), string(chart.OneColumn)))
	if err != nil {
		err = fmt.Errorf("%w: %w", control.ErrInput, err)
	}
	return f, err
}

func (f figureFormat) send(w http.ResponseWriter, figure *chart.Figure) error {
	w.Header().Set("Content-Type", figureTypes[f.name])
	asDocument(w)
	if f.name == "csv" {
		return figure.WriteCSV(newFlow(w, nil))
	}
	send(w, figure.File(f.name, f.width))
	return nil
}

// Bounds of a figure that a client sends.
const (
	maxFigureBytes  = 8 << 20
	maxFigureSeries = 400
	maxFigureNumber = 1e300 // sums and differences do not overflow
)

// sentFigure is a figure with data from the client: a chart of the page.
type sentFigure struct {
	Title  string       `json:"title"`
	X      sentAxis     `json:"x"`
	Y      sentAxis     `json:"y"`
	Series []sentSeries `json:"series"`
}

type sentAxis struct {
	Title  string   `json:"title"`
	Scale  string   `json:"scale"` // linear, log or log-from-zero
	Level  float64  `json:"level"`
	Labels []string `json:"labels"`
}

// sentSeries has points of 2 numbers, x and y; of 4, with the interval of y; or of 6, with that of x.
type sentSeries struct {
	Name   string      `json:"name"`
	Kind   string      `json:"kind"` // line, dots, bars or intervals
	Grey   bool        `json:"grey"`
	Plain  bool        `json:"plain"` // a line without markers
	Width  float64     `json:"width"` // of bars
	Points [][]float64 `json:"points"`
}

var (
	scales      = map[string]chart.Scale{"": chart.Linear, "linear": chart.Linear, "log": chart.Log, "log-from-zero": chart.LogFromZero}
	seriesKinds = map[string]chart.Kind{"": chart.Line, "line": chart.Line, "dots": chart.Dots, "bars": chart.Bars, "intervals": chart.Intervals}
)

// drawFigure draws the figure that a client sends.
func (s *Server) drawFigure(w http.ResponseWriter, r *http.Request) error {
	format, err := figureFormatOf(r)
	if err != nil {
		return err
	}
	var sent sentFigure
	if err := readJSON(w, r, maxFigureBytes, &sent); err != nil {
		return err
	}
	figure, err := sent.figure()
	if err != nil {
		return fmt.Errorf("figure %w: %w", control.ErrInput, err)
	}
	return format.send(w, figure)
}

func (f *sentFigure) figure() (*chart.Figure, error) {
	if n := len(f.Series); n == 0 || n > maxFigureSeries {
		return nil, fmt.Errorf("%d series: expected 1 to %d", n, maxFigureSeries)
	}
	figure := &chart.Figure{Title: f.Title}
	var err error
	if figure.X, err = f.X.axis("x"); err != nil {
		return nil, err
	}
	if figure.Y, err = f.Y.axis("y"); err != nil {
		return nil, err
	}
	for i := range f.Series {
		s, err := f.Series[i].series(i)
		if err != nil {
			return nil, fmt.Errorf("series %.40q: %w", f.Series[i].Name, err)
		}
		figure.Series = append(figure.Series, s)
	}
	return figure, nil
}

func (a *sentAxis) axis(name string) (chart.Axis, error) {
	scale, known := scales[a.Scale]
	if !known {
		return chart.Axis{}, fmt.Errorf("scale %.40q of %s: expected linear, log or log-from-zero", a.Scale, name)
	}
	return chart.Axis{Title: a.Title, Scale: scale, Level: a.Level, Labels: a.Labels}, checkNumbers([]float64{a.Level})
}

func (s *sentSeries) series(style int) (chart.Series, error) {
	kind, known := seriesKinds[s.Kind]
	if !known {
		return chart.Series{}, fmt.Errorf("kind %.40q: expected line, dots, bars or intervals", s.Kind)
	}
	series := chart.Series{Name: s.Name, Kind: kind, Style: style, Grey: s.Grey, Plain: s.Plain}
	for _, p := range s.Points {
		if n := len(p); n != 2 && n != 4 && n != 6 {
			return series, fmt.Errorf("a point of %d numbers: expected x and y, and optionally the interval of y and the interval of x", n)
		}
		if err := checkNumbers(append(p, s.Width)); err != nil {
			return series, err
		}
		p = append(p, make([]float64, 6-len(p))...)
		series.Points = append(series.Points, chart.Point{X: p[0], Y: p[1], Low: p[2], High: p[3], Left: p[4], Right: p[5], Width: s.Width})
	}
	return series, nil
}

func checkNumbers(all []float64) error {
	for _, v := range all {
		if v < -maxFigureNumber || v > maxFigureNumber {
			return fmt.Errorf("%g: expected a number between %g and %g", v, -maxFigureNumber, maxFigureNumber)
		}
	}
	return nil
}

// pictureList is the answer to GET /runs/{run}/pictures: the captions, without the files.
type pictureList struct {
	Pictures []results.Picture `json:"pictures"`
}

func (s *Server) listPictures(r *http.Request) (pictureList, error) {
	shown := results.Shown{Cell: r.PathValue("cell")}
	if text := r.URL.Query().Get("round"); text != "" {
		round, err := positive("round", text, 1)
		if err != nil {
			return pictureList{}, err
		}
		shown.Round = round
	}
	found, err := s.api.Pictures(r.Context(), runName(r), shown)
	return pictureList{found}, err
}

// positive parses a whole number in a request.
func positive(name, text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, fmt.Errorf("%s=%.40q %w: expected a whole number of at least %d", name, text, control.ErrInput, least)
	}
	return n, nil
}

// showPicture sends one picture. It never changes, so clients may cache it.
func (s *Server) showPicture(w http.ResponseWriter, r *http.Request) error {
	round, err := positive("round", r.PathValue("round"), 1)
	if err != nil {
		return err
	}
	number, err := positive("number", r.PathValue("number"), 0)
	if err != nil {
		return err
	}
	cell := r.PathValue("cell")
	found, err := s.api.Pictures(r.Context(), runName(r), results.Shown{Cell: cell, Round: round})
	if err != nil {
		return err
	}
	if number >= len(found) {
		return fmt.Errorf("run %s, cell %.40q: there is no picture %d after round %d; GET pictures lists the existing ones: %w", r.PathValue("run"), cell, number, round, storage.ErrNotFound)
	}
	w.Header().Set("Content-Type", "image/png")
	w.Header().Set("Cache-Control", "private, max-age=3600")
	send(w, found[number].PNG)
	return nil
}

func (c *Client) Pictures(ctx context.Context, run string, shown results.Shown) ([]results.Picture, error) {
	query := url.Values{}
	if shown.Round > 0 {
		query.Set("round", strconv.Itoa(shown.Round))
	}
	answer, err := listPictures.ask(ctx, c, query, run, shown.Cell)
	if err != nil {
		return nil, err
	}
	for i := range answer.Pictures {
		p := &answer.Pictures[i]
		p.PNG, err = showPicture.file(ctx, c, nil, run, p.Cell, strconv.Itoa(p.Round), strconv.Itoa(p.Number))
		if err != nil {
			return nil, fmt.Errorf("picture of cell %s after round %d: %w", p.Cell, p.Round, err)
		}
	}
	return answer.Pictures, nil
}
