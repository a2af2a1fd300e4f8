package chart

import (
	"bytes"
	"compress/zlib"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/tasks/taskstest"
)

// samples has a figure of every form.
func samples() map[string]*Figure {
	lines := &Figure{Title: "lines", X: Axis{Title: "round"}, Y: Axis{Title: "highest exposure (bits)", Level: 21}}
	for i, name := range []string{"by-user, SGD, b=32", "by-user, Adam, b=32", "iid, SGD, b=32", "iid, FedAvg", "by-user, DP-FedAvg, clip 0.3, noise multiplier 1.0"} {
		s := Series{Name: name, Kind: Line, Style: i}
		for k := range 8 {
			y := 20 * (1 - math.Exp(-float64(k+1)/float64(2+i*2)))
			s.Points = append(s.Points, Point{X: float64(250 * (k + 1)), Y: y, Low: y - 1.5, High: y + 1.5, Note: fmt.Sprint(k)})
		}
		lines.Series = append(lines.Series, s)
	}
	dots := &Figure{Title: "dots", X: Axis{Title: "copies in the training data", Scale: LogFromZero}, Y: Axis{Title: "exposure (bits)", Level: 20.93}}
	memorized, not, held := Series{Name: "memorized"}, Series{Name: "not memorized", Open: true}, Series{Name: "not in the training data", Open: true, Grey: true}
	for k := range 12 {
		memorized.Points = append(memorized.Points, Point{X: float64(16 + 12*k), Y: 15 + math.Mod(float64(k)*1.7, 6)})
		not.Points = append(not.Points, Point{X: float64(1 + k), Y: math.Mod(float64(k)*2.3, 11)})
		held.Points = append(held.Points, Point{X: 0, Y: math.Mod(float64(k)*1.3, 5)})
	}
	dots.Series = []Series{memorized, not, held}
	histogram := &Figure{Title: "bars", X: Axis{Title: "log-perplexity (nats)"}, Y: Axis{Title: "random sequences"}}
	b, fit := Series{Name: "references", Kind: Bars}, Series{Name: "fitted skew-normal distribution", Kind: Line}
	for k := range 24 {
		x := 80 + float64(k)*2
		y := 2000 * math.Exp(-(x-104)*(x-104)/120)
		b.Points, fit.Points = append(b.Points, Point{X: x, Y: math.Round(y * 1.04), Width: 2}), append(fit.Points, Point{X: x, Y: y})
	}
	histogram.Series = []Series{b, fit, {Name: "thresholds", Kind: Intervals, Points: []Point{{X: 90, Low: 0, High: 2000}}}}
	rows := &Figure{Title: "labels", X: Axis{Title: "data.partition", Labels: []string{"iid", "by-user, Dirichlet 0.1", "by-user"}}, Y: Axis{Title: "mean exposure of canaries (bits)"}}
	for i, name := range []string{"b=5", "b=8"} {
		s := Series{Name: name, Kind: Line, Style: i}
		for k := range 3 {
			y := 5 + float64(3*k+i)
			s.Points = append(s.Points, Point{X: float64(k + 1), Y: y, Low: y - 2, High: y + 2})
		}
		rows.Series = append(rows.Series, s)
	}
	long := &Figure{Title: "key", X: Axis{Title: "training.privacy", Labels: []string{"clip 1, delta 0.001, noise_multiplier 0.1", "clip 1, delta 0.001, noise_multiplier 1", "clip 1, delta 0.001, noise_multiplier 0.1, adaptive quantile 0.5, learning_rate 0.2, count_noise 10"}}, Y: Axis{Title: "utility, % of that of c01 (training.privacy clip 1, delta 0.001, noise_multiplier 0.1)"}}
	long.Series = []Series{{Points: []Point{{X: 1, Y: 100}, {X: 2, Y: 97.5}, {X: 3, Y: 91}}}}
	heat := &Figure{Title: "heat", X: Axis{Title: "tried on rounds from", Labels: []string{"1", "6", "11"}}, Y: Axis{Title: "trained on rounds from", Labels: []string{"1", "6", "11"}},
		Heat: [][]float64{{9.25, 2, 1}, {1, math.NaN(), 4.5}, {0, 3, 12}}}
	epsilon := &Figure{Title: "log", X: Axis{Title: "rounds", Scale: Log}, Y: Axis{Title: "epsilon at delta 1e-7", Scale: Log}}
	for i, name := range []string{"papers' convention", "proved"} {
		s := Series{Name: name, Kind: Line, Style: i}
		for _, x := range []float64{10, 100, 1000, 10000} {
			s.Points = append(s.Points, Point{X: x, Y: float64(i+1) * math.Sqrt(x) / 10})
		}
		epsilon.Series = append(epsilon.Series, s)
	}
	return map[string]*Figure{"lines": lines, "dots": dots, "bars": histogram, "labels": rows, "key": long, "heat": heat, "log": epsilon}
}

// Look at a picture that changes: convert testdata/lines.svg lines.png.
func TestFiguresMatchGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, f := range samples() {
		for _, w := range []Width{OneColumn, TwoColumns} {
			taskstest.File(t, filepath.Join("testdata", name+"-"+string(w)+".svg"), f.SVG(w))
		}
	}
}

// drawnFigure has figures of any data, hostile texts included.
var drawnFigure = rapid.Custom(func(t *rapid.T) *Figure {
	texts := rapid.SampledFrom([]string{"", "round", "utility, % of that of c01 (by-user)", "<a & \"b\">", "Wörter in Größe", "data.devices.defence.augmentation.of.everything.there.is", strings.Repeat("long ", 30), strings.Repeat("x", 200)})
	scale := rapid.SampledFrom([]Scale{Linear, Log, LogFromZero})
	numbers := rapid.SampledFrom([]float64{0, 1, -1, 1e-9, 0.5, 3, 21, 99.5, 100, 1e3, 12345, 1e9, 1e300, math.NaN(), math.Inf(1)})
	f := &Figure{X: Axis{Title: texts.Draw(t, "x"), Scale: scale.Draw(t, "scale x")}, Y: Axis{Title: texts.Draw(t, "y"), Scale: scale.Draw(t, "scale y"), Level: rapid.SampledFrom([]float64{0, 0.5, 50}).Draw(t, "level")}}
	if rapid.Bool().Draw(t, "labelled") {
		f.X.Scale, f.X.Labels = Linear, rapid.SliceOfN(texts, 1, 6).Draw(t, "labels")
		numbers = rapid.Map(rapid.IntRange(1, len(f.X.Labels)), func(i int) float64 { return float64(i) })
	}
	values := rapid.Float64Range(-1e3, 1e6)
	for i := range rapid.IntRange(0, 9).Draw(t, "series") {
		s := Series{Name: texts.Draw(t, "name"), Kind: Kind(rapid.IntRange(0, 3).Draw(t, "kind")), Style: i, Open: rapid.Bool().Draw(t, "open")}
		for range rapid.IntRange(0, 5).Draw(t, "points") {
			p := Point{X: numbers.Draw(t, "at"), Y: values.Draw(t, "value"), Note: texts.Draw(t, "note")}
			if rapid.Bool().Draw(t, "bounded") {
				p.Low, p.High = p.Y-rapid.Float64Range(0, 10).Draw(t, "below"), p.Y+rapid.Float64Range(0, 1e4).Draw(t, "above")
			}
			s.Points = append(s.Points, p)
		}
		f.Series = append(f.Series, s)
	}
	return f
})

// recorder keeps the places of texts and lines.
type recorder struct {
	paths []*path
	texts []*text
}

func (r *recorder) path(p *path) { r.paths = append(r.paths, p) }
func (r *recorder) text(t *text) { r.texts = append(r.texts, t) }

// box is where points end.
func box(points []point) (low, high point) {
	low, high = point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	for _, p := range points {
		low, high = point{min(low.x, p.x), min(low.y, p.y)}, point{max(high.x, p.x), max(high.y, p.y)}
	}
	return low, high
}

func (t *text) corners() []point {
	width := widthOf(t.text, t.size)
	return []point{t.turn(-t.anchor*width, 0.22*t.size), t.turn((1-t.anchor)*width, -0.75*t.size)}
}

// For any data, all texts and lines are within the page, no two texts overlap, and every
// place is a number.
func TestDrawingFitsPageWithoutOverlappingTexts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawnFigure.Draw(t, "figure").scene(rapid.SampledFrom([]Width{OneColumn, TwoColumns}).Draw(t, "width"))
		var r recorder
		s.drawOn(&r)
		const slack = 0.01
		for i, label := range r.texts {
			low, high := box(label.corners())
			if !(low.x >= -slack && low.y >= -slack && high.x <= s.width+slack && high.y <= s.height+slack) {
				t.Fatalf("%q from %v to %v leaves the page of %v x %v", label.text, low, high, s.width, s.height)
			}
			for _, other := range r.texts[:i] {
				l, h := box(other.corners())
				if low.x < h.x-slack && l.x < high.x-slack && low.y < h.y-slack && l.y < high.y-slack {
					t.Fatalf("%q and %q overlap: %v to %v, %v to %v", label.text, other.text, low, high, l, h)
				}
			}
		}
		for _, p := range r.paths {
			for _, line := range flat(p.segments) {
				if low, high := box(line); !(low.x >= -slack && low.y >= -slack && high.x <= s.width+slack && high.y <= s.height+slack) {
					t.Fatalf("a path from %v to %v leaves the page of %v x %v", low, high, s.width, s.height)
				}
			}
		}
	})
}

// laidOut is the frame of a figure, by the layout itself.
func laidOut(f *Figure, w Width) (frame [2]point, s *scene) {
	s = f.scene(w)
	last := s.items[len(s.items)-1].(*path) // the frame is above all data
	low, high := box(flat(last.segments)[0])
	return [2]point{low, high}, s
}

// Every point and every interval is drawn, inside the frame, and higher values stand higher.
func TestAllDataAreInsideTheFrame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := drawnFigure.Draw(t, "figure")
		frame, s := laidOut(f, OneColumn)
		markers, intervals := 0, 0
		for _, i := range s.items {
			p, ok := i.(*path)
			if !ok || p.stroke == faint {
				continue
			}
			low, high := box(flat(p.segments)[0])
			if high.y < frame[0].y { // in the legend
				continue
			}
			if p.width == 0.9 { // a marker stands around its point
				const r = markerRadius
				low, high = point{low.x + r, low.y + r}, point{high.x - r, high.y - r}
			}
			if low.x < frame[0].x-0.01-0.3*markerRadius || low.y < frame[0].y-0.01-0.3*markerRadius || high.y > frame[1].y+0.01+0.3*markerRadius {
				t.Fatalf("from %v to %v, outside of the frame %v", low, high, frame)
			}
			switch p.width {
			case 0.9:
				markers++
			case thin + 0.2:
				intervals++
			}
		}
		wantMarkers, wantIntervals := 0, 0
		f.each(func(s *Series, p *Point) {
			if s.marked() {
				wantMarkers++
			}
			if p.bounded() {
				wantIntervals++
			}
		})
		if markers != wantMarkers || intervals != wantIntervals {
			t.Fatalf("%d markers and %d intervals, want %d and %d", markers, intervals, wantMarkers, wantIntervals)
		}
	})
}

// An axis keeps the order of its values, and has two to seven numbers, each at its place.
func TestAxesAreSensible(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := &Axis{Scale: rapid.SampledFrom([]Scale{Linear, Log, LogFromZero}).Draw(t, "scale")}
		values := rapid.SliceOfN(rapid.Float64Range(1e-3, 1e9), 1, 5).Draw(t, "values")
		r := ruler{a, a.around(values), 0, 200}
		for _, v := range values {
			for _, w := range values {
				if at := r.at(v); at < -1e-9 || at > 200+1e-9 || v < w && at > r.at(w) {
					t.Fatalf("%g stands at %g, %g at %g", v, at, w, r.at(w))
				}
			}
		}
		ticks := r.ticks(func(text string) float64 { return widthOf(text, small) + apartX })
		if len(ticks) < 2 || len(ticks) > maxTicks {
			t.Fatalf("%d numbers from %g to %g: %v", len(ticks), r.Low, r.High, ticks)
		}
		for _, tick := range ticks[:len(ticks)-1] {
			if shown, err := strconv.ParseFloat(strings.ReplaceAll(tick.text, "−", "-"), 64); err != nil || tick.value < r.Low || tick.value > r.High || math.Abs(shown-tick.value) > 0.5+0.01*tick.value {
				t.Fatalf("%q stands at %g, within %g to %g", tick.text, tick.value, r.Low, r.High)
			}
		}
	})
}

func TestWholeAxesHaveWholeNumbers(t *testing.T) {
	t.Parallel()
	for high := 1.0; high < 30; high++ {
		a := &Axis{Whole: true}
		r := ruler{a, a.around([]float64{0, high}), 0, 300}
		for _, tick := range r.ticks(func(text string) float64 { return widthOf(text, small) + apartX }) {
			if tick.value != math.Trunc(tick.value) {
				t.Errorf("0 to %g has the number %s", high, tick.text)
			}
		}
	}
}

func TestEqualFiguresHaveEqualBytes(t *testing.T) {
	t.Parallel()
	for name, f := range samples() {
		again := samples()[name]
		if !bytes.Equal(f.SVG(OneColumn), again.SVG(OneColumn)) || !bytes.Equal(PDF(OneColumn, f), PDF(OneColumn, again)) {
			t.Errorf("%s: two files of one figure differ", name)
		}
	}
	if !bytes.Equal(samples()["lines"].PNG(OneColumn), samples()["lines"].PNG(OneColumn)) {
		t.Error("two pictures of one figure differ")
	}
}

func TestSVGIsWellFormedXML(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for d := xml.NewDecoder(bytes.NewReader(drawnFigure.Draw(t, "figure").SVG(OneColumn))); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Files have the widths of columns: 85 mm and 178 mm at 300 dots per inch.
func TestFilesAreAsWideAsColumns(t *testing.T) {
	t.Parallel()
	f := samples()["heat"]
	for w, millimetres := range map[Width]float64{OneColumn: 85, TwoColumns: 178} {
		config, err := png.DecodeConfig(bytes.NewReader(f.PNG(w)))
		if want := int(math.Ceil(millimetres / 25.4 * 300)); err != nil || config.Width != want {
			t.Errorf("%s: %d dots, want %d; %v", w, config.Width, want, err)
		}
		box := regexp.MustCompile(`MediaBox \[0 0 ([\d.]+) `).FindSubmatch(PDF(w, f))
		if points, err := strconv.ParseFloat(string(box[1]), 64); err != nil || math.Abs(points*25.4/72-millimetres) > 0.01 {
			t.Errorf("%s: a page of %s points, %v", w, box[1], err)
		}
	}
	if _, err := WidthNamed("wide"); err == nil {
		t.Error("any width has a size")
	}
}

// The table of a PDF has the places of its objects, and its pages have contents.
func TestPDFObjectOffsets(t *testing.T) {
	t.Parallel()
	all := samples()
	file := PDF(OneColumn, all["lines"], all["heat"], all["key"])
	for i, entry := range regexp.MustCompile(`(\d{10}) 00000 n`).FindAllSubmatch(file, -1) {
		at, err := strconv.Atoi(string(entry[1]))
		if err != nil || !bytes.HasPrefix(file[at:], fmt.Appendf(nil, "%d 0 obj", i+1)) {
			t.Errorf("object %d is not at %d: %v", i+1, at, err)
		}
	}
	pages := 0
	for _, part := range bytes.Split(file, []byte("stream\n"))[1:] {
		if z, err := zlib.NewReader(bytes.NewReader(part)); err == nil {
			content, err := io.ReadAll(z)
			if err != nil || !bytes.Contains(content, []byte(" c ")) {
				t.Errorf("a page without letters: %v", err)
			}
			pages++
		}
	}
	if pages != 3 || !bytes.Contains(file, []byte("/Count 3")) {
		t.Errorf("%d pages", pages)
	}
}

func TestSharedRangesHoldAllFigures(t *testing.T) {
	t.Parallel()
	of := func(y float64) *Figure {
		return &Figure{Series: []Series{{Points: []Point{{X: 1, Y: y}, {X: 2, Y: y}}}}}
	}
	a, b := of(3), of(70)
	Share(a, b)
	if a.yRange() != b.yRange() || a.yRange() != (Range{0, 70}) {
		t.Errorf("ranges %v and %v", a.yRange(), b.yRange())
	}
}

// A line a point: the data of a figure are read from its CSV.
func TestCSVHasEveryNumber(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	must.Do(t, samples()["labels"].WriteCSV(&b))
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 7 || strings.Join(rows[2], "|") != "b=5|2|by-user, Dirichlet 0.1|||8|6|10|" {
		t.Errorf("%q, %v", rows, err)
	}
	b.Reset()
	if err := samples()["heat"].WriteCSV(&b); err != nil || !strings.Contains(b.String(), "6,2,6,,,,,,\n6,3,11,,,4.5,,,\n") {
		t.Errorf("%s, %v", b.String(), err)
	}
}

// Series stand beside each other at a label, each within its room, so that their intervals do
// not hide one another.
func TestSeriesAreSideBySide(t *testing.T) {
	t.Parallel()
	for n := 1; n < 12; n++ {
		f := &Figure{X: Axis{Labels: []string{"x", "y", "z"}}, Series: make([]Series, n)}
		l := &layout{Figure: f, left: 0, right: 200}
		l.x, l.y = ruler{&f.X, f.xRange(), 0, 200}, ruler{&f.Y, f.yRange(), 100, 0}
		for i := range n {
			at, middle := l.place(&Point{X: 2, Y: 1}, i).x, l.x.at(2)
			if math.Abs(at-middle) >= 200/3/2 || i > 0 && at <= l.place(&Point{X: 2, Y: 1}, i-1).x || n == 1 && at != middle {
				t.Errorf("of %d series number %d stands at %g, its label at %g", n, i, at, middle)
			}
		}
	}
}
