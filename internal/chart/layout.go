package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Sizes in points: of letters, and of the margins around the frame.
const (
	small, large = 7, 8 // letters of numbers and legends; of axis titles
	leading      = 1.25 // distance of baselines, in letter sizes
	middle       = 0.35 // half the height of a digit, in letter sizes
	margin       = 3    // around the page
	gap          = 3    // between the frame and its numbers
	inset        = 4    // between the frame and the values at the ends of its axes
	sample       = 20   // line of a legend
	entryGap     = 9    // between entries of a legend
	apartX       = 8    // between numbers in a row
	apartY       = 10   // between numbers in a column
	markerRadius = 2.1
	lineWidth    = 1.1
	thin         = 0.6
)

const (
	black = "#000000"
	white = "#ffffff"
	grey  = "#8c8c8c"
	faint = "#dddddd"
	bars  = "#c8d3dc"
)

// colours is the palette of Okabe and Ito (2008), Color universal design, without yellow, which is
// hard to see on paper. Styles also differ in markers and dashes.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9"}

var dashes = [][]float64{nil, {4, 1.5}, {1.2, 1.5}, {5, 1.5, 1.2, 1.5}, {8, 2}, {2.5, 1.2}}

func (s *Series) colour() string {
	if s.Grey {
		return grey
	}
	return colours[s.Style%len(colours)]
}

// layout is a figure while its scene is built.
type layout struct {
	*Figure
	*scene
	x, y                     ruler
	left, right, top, bottom float64
	xTicks, yTicks           []tick
}

// scene lays the figure out from the top: legend, frame, numbers, titles and the explanation of
// numbered labels.
func (f *Figure) scene(w Width) *scene {
	width, height := w.size()
	l := &layout{Figure: f, scene: &scene{title: f.Title, width: width}}
	l.top = l.legend()
	l.bottom, l.right = l.top+height, width-margin-inset
	l.y = ruler{&f.Y, f.yRange(), l.bottom - l.below(), l.top + inset}
	yLines := wrap(f.Y.Title, height, large)
	labels, key := f.Y.Labels, []string(nil)
	if labels != nil {
		l.y.from, l.y.to = l.top, l.bottom // the first row is at the top
		labels, key = short(labels, (width-2*margin)/3, "row ")
	}
	l.yTicks = l.ticks(&l.y, labels, func(string) float64 { return small + apartY })
	l.left = margin + large*leading*float64(len(yLines)) + gap + widest(l.yTicks) + gap
	l.x = ruler{&f.X, f.xRange(), l.left + inset, l.right - inset}
	if f.X.Labels != nil {
		l.x.from, l.x.to = l.left, l.right
	}
	l.xAxis(key)
	l.yAxis(yLines)
	l.squares()
	l.series()
	l.add(&path{stroke: black, width: thin, segments: rectangle(l.left, l.top, l.right-l.left, l.bottom-l.top)})
	return l.scene
}

// below is the distance between the frame and the lowest value: 0 for bars, which stand on the frame.
func (l *layout) below() float64 {
	for _, s := range l.Series {
		if s.Kind == Bars && len(s.Points) > 0 {
			return 0
		}
	}
	return inset
}

// ticks returns the labels of an axis, or numbers if it has no labels.
func (l *layout) ticks(r *ruler, labels []string, extent func(string) float64) (ticks []tick) {
	if labels == nil {
		return r.ticks(extent)
	}
	for i, text := range labels {
		ticks = append(ticks, tick{float64(i + 1), text})
	}
	return ticks
}

func widest(ticks []tick) (width float64) {
	for _, t := range ticks {
		width = max(width, widthOf(t.text, small))
	}
	return width
}

// short returns labels that fit, or numbers in their place with a key that explains each.
func short(labels []string, room float64, prefix string) (shown, key []string) {
	for _, text := range labels {
		if widthOf(text, small) > room {
			for i, text := range labels {
				shown, key = append(shown, strconv.Itoa(i+1)), append(key, fmt.Sprintf("%s%d: %s", prefix, i+1, text))
			}
			return shown, key
		}
	}
	return labels, nil
}

// maxLabelLines is the maximum number of lines of a label below the frame; a number replaces longer labels.
const maxLabelLines = 3

// xAxis draws the axis below the frame and sets the height of the page.
func (l *layout) xAxis(key []string) {
	labels, base := l.X.Labels, l.bottom+gap+small
	lines := 1
	if n := float64(len(labels)); n > 0 {
		room := (l.right-l.left)/n - gap
		lines = maxLines(labels, room)
		if lines > maxLabelLines {
			var entries []string
			labels, entries = short(labels, 0, "")
			key, lines = append(key, entries...), 1
		}
	}
	l.xTicks = l.ticks(&l.x, labels, func(text string) float64 { return widthOf(text, small) + apartX })
	for _, t := range l.xTicks {
		at := l.x.at(t.value)
		room := l.right - l.left
		if labels != nil {
			room = room/float64(len(labels)) - gap
		} else {
			l.add(&path{stroke: faint, width: thin, segments: polyline([]point{{at, l.top}, {at, l.bottom}})})
		}
		for i, line := range wrap(t.text, room, small) {
			l.words(l.inside(at, line), base+small*leading*float64(i), small, 0.5, line)
		}
	}
	y := base + small*leading*float64(lines-1) + gap
	for _, line := range wrap(l.X.Title, l.right-l.left, large) {
		y += large * leading
		l.words((l.left+l.right)/2, y, large, 0.5, line)
	}
	for _, text := range key {
		for _, line := range wrap(text, l.width-2*margin, small) {
			y += small * leading
			l.words(margin, y, small, 0, line)
		}
	}
	l.height = y + gap + margin
}

// maxLines returns the number of lines that labels take; more than possible if a word does not fit.
func maxLines(labels []string, room float64) (lines int) {
	for _, label := range labels {
		for _, word := range strings.Fields(label) {
			if widthOf(word, small) > room {
				return maxLabelLines + 1
			}
		}
		lines = max(lines, len(wrap(label, room, small)))
	}
	return lines
}

// inside moves the middle of a text so that the text ends within the page.
func (l *layout) inside(at float64, text string) float64 {
	return min(at, l.width-margin-widthOf(text, small)/2)
}

func (l *layout) words(x, y, size, anchor float64, words string) {
	if words != "" {
		l.add(&text{x: x, y: y, size: size, anchor: anchor, text: words})
	}
}

func (l *layout) yAxis(title []string) {
	for _, t := range l.yTicks {
		at := l.y.at(t.value)
		if l.Y.Labels == nil {
			l.add(&path{stroke: faint, width: thin, segments: polyline([]point{{l.left, at}, {l.right, at}})})
		}
		l.words(l.left-gap, at+middle*small, small, 1, t.text)
	}
	for i, line := range title {
		l.add(&text{x: margin + large*leading*(float64(i)+0.8), y: (l.top + l.bottom) / 2, size: large, anchor: 0.5, upward: true, text: line})
	}
}

// legend draws the names of the series at the top of the page, and returns its lower edge.
func (l *layout) legend() float64 {
	x, y := float64(margin), float64(margin)
	for i := range l.Series {
		s := &l.Series[i]
		if s.Name == "" {
			continue
		}
		lines := wrap(s.Name, l.width-2*margin-sample-gap, small)
		width := sample + gap + widthOf(lines[0], small) + entryGap
		if x > margin && (x+width-entryGap > l.width-margin || len(lines) > 1) {
			x, y = margin, y+small*leading
		}
		l.sample(s, x, y+small*leading/2)
		for j, line := range lines {
			if j > 0 {
				y += small * leading
			}
			l.words(x+sample+gap, y+small, small, 0, line)
		}
		x += width
		if len(lines) > 1 {
			x = l.width
		}
	}
	if x == margin {
		return margin
	}
	return y + small*leading + gap
}

// sample draws the line or marker of a series in the legend.
func (l *layout) sample(s *Series, x, y float64) {
	switch s.Kind {
	case Bars:
		l.add(&path{fill: bars, stroke: grey, width: thin, segments: rectangle(x+4, y-2.5, sample-8, 5)})
		return
	case Line:
		l.add(s.line([]point{{x, y}, {x + sample, y}}))
	case Intervals:
		l.interval(black, point{x + sample/2, y - 3}, point{x + sample/2, y + 3})
		return
	case Dots:
	}
	if s.marked() {
		l.add(s.marker(point{x + sample/2, y}, ""))
	}
}

// fewPoints is the maximum number of points of a line with markers.
const fewPoints = 20

func (s *Series) marked() bool {
	return s.Kind == Dots || s.Kind == Line && len(s.Points) <= fewPoints && !s.Plain
}

func (s *Series) line(points []point) *path {
	dash := dashes[s.Style%len(dashes)]
	if s.Grey {
		dash = []float64{2, 2}
	}
	return &path{stroke: s.colour(), width: lineWidth, dash: dash, segments: polyline(points)}
}

// squares draws a heat map: larger numbers are darker, but light enough to read the number.
func (l *layout) squares() {
	if len(l.Heat) == 0 {
		return
	}
	most := l.darkest()
	width, height := (l.right-l.left)/float64(len(l.X.Labels)), (l.bottom-l.top)/float64(len(l.Heat))
	for i, row := range l.Heat {
		for j, v := range row {
			x, y := l.left+width*float64(j), l.top+height*float64(i)
			note := fmt.Sprintf("%s, %s: none", l.Y.Labels[i], l.X.Labels[j])
			square := &path{fill: white, note: note, segments: rectangle(x, y, width, height)}
			l.add(square)
			if math.IsNaN(v) {
				continue
			}
			words := fmt.Sprintf("%.3g", v)
			square.note = strings.TrimSuffix(note, "none") + words
			if most > 0 {
				square.fill = tinted(0.55 * v / most)
			}
			if widthOf(words, small) < width && small < height {
				l.words(x+width/2, y+height/2+middle*small, small, 0.5, words)
			}
		}
	}
}

// tinted mixes the first colour with white; share 1 is the pure colour.
func tinted(share float64) string {
	colour := rgb(colours[0])
	for i, v := range colour {
		colour[i] = uint8(math.Round(255 - share*(255-float64(v))))
	}
	return fmt.Sprintf("#%02x%02x%02x", colour[0], colour[1], colour[2])
}

// series draws all series: bars, lines and intervals, levels, and markers above them.
func (l *layout) series() {
	for i := range l.Series {
		if l.Series[i].Kind == Bars {
			l.bars(&l.Series[i])
		}
	}
	for i := range l.Series {
		l.lines(&l.Series[i], i)
	}
	level := func(from, to point) {
		l.add(&path{stroke: black, width: thin, dash: []float64{3, 2}, segments: polyline([]point{from, to})})
	}
	if at := l.Y.Level; at != 0 && l.Y.Scale.draws(at) {
		level(point{l.left, l.y.at(at)}, point{l.right, l.y.at(at)})
	}
	if at := l.X.Level; at != 0 && l.X.Scale.draws(at) {
		level(point{l.x.at(at), l.top}, point{l.x.at(at), l.bottom})
	}
	for i := range l.Series {
		if s := &l.Series[i]; s.marked() {
			l.eachOf(s, func(p *Point) { l.add(s.marker(l.place(p, i), p.Note)) })
		}
	}
}

// place returns the position of a point of the i-th series. With labels, series stand next to each
// other so that their intervals do not overlap.
func (l *layout) place(p *Point, i int) point {
	at := point{l.x.at(p.X), l.y.at(p.Y)}
	if n := float64(len(l.X.Labels)); n > 0 {
		step := min(2.6*markerRadius, (l.right-l.left)/n/float64(len(l.Series)+1))
		at.x += step * (float64(i) - float64(len(l.Series)-1)/2)
	}
	return at
}

func (l *layout) bars(s *Series) {
	foot := l.y.at(max(0, l.y.Low))
	l.eachOf(s, func(p *Point) {
		x, y := l.x.at(p.X-p.Width/2), l.y.at(p.Y)
		l.add(&path{fill: bars, stroke: grey, width: thin, note: p.Note, segments: rectangle(x, y, l.x.at(p.X+p.Width/2)-x, foot-y)})
	})
}

func (l *layout) lines(s *Series, i int) {
	var points []point
	colour := s.colour()
	if s.Kind == Bars || s.Kind == Intervals {
		colour = black
	}
	l.eachOf(s, func(p *Point) {
		at := l.place(p, i)
		points = append(points, at)
		if p.bounded() {
			l.interval(colour, point{at.x, l.y.at(p.Low)}, point{at.x, l.y.at(p.High)})
		}
		if p.Left < p.Right {
			l.interval(colour, point{l.x.at(p.Left), at.y}, point{l.x.at(p.Right), at.y})
		}
	})
	if s.Kind == Line && len(points) > 1 {
		l.add(s.line(points))
	}
}

func (l *layout) interval(colour string, from, to point) {
	across := point{1.6, 0}
	if from.y == to.y {
		across = point{0, 1.6}
	}
	segments := polyline([]point{from, to})
	for _, p := range []point{from, to} {
		segments = append(segments, moveTo(p.x-across.x, p.y-across.y), lineTo(p.x+across.x, p.y+across.y))
	}
	l.add(&path{stroke: colour, width: thin + 0.2, segments: segments})
}

// marker returns the marker of the series: five shapes, filled, then open.
func (s *Series) marker(at point, note string) *path {
	const r = markerRadius
	p := &path{stroke: s.colour(), width: 0.9, fill: s.colour(), note: note}
	if s.Open != (s.Style/5%2 == 1) {
		p.fill = white
	}
	switch s.Style % 5 {
	case 0:
		p.segments = circle(at.x, at.y, r)
	case 1:
		p.segments = rectangle(at.x-r*0.9, at.y-r*0.9, r*1.8, r*1.8)
	case 2:
		p.segments = polygon(point{at.x, at.y - r*1.2}, point{at.x + r*1.15, at.y + r*0.9}, point{at.x - r*1.15, at.y + r*0.9})
	case 3:
		p.segments = polygon(point{at.x, at.y - r*1.3}, point{at.x + r*1.3, at.y}, point{at.x, at.y + r*1.3}, point{at.x - r*1.3, at.y})
	case 4:
		p.segments = polygon(point{at.x - r*1.15, at.y - r*0.9}, point{at.x + r*1.15, at.y - r*0.9}, point{at.x, at.y + r*1.2})
	}
	return p
}
