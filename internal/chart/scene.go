package chart

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// scene is a laid-out figure: a page with paths and texts, from the back to the front.
type scene struct {
	title         string
	width, height float64
	items         []item
}

func (s *scene) add(i item) { s.items = append(s.items, i) }

type item interface{ on(c canvas) }

// canvas is an output format of a scene.
type canvas interface {
	path(*path)
	text(*text)
}

func (p *path) on(c canvas) { c.path(p) }
func (t *text) on(c canvas) { c.text(t) }

func (s *scene) drawOn(c canvas) {
	c.path(&path{fill: white, segments: rectangle(0, 0, s.width, s.height)})
	for _, i := range s.items {
		i.on(c)
	}
}

type point struct{ x, y float64 }

// segment is a part of a path: M moves, L draws a line and C a Bézier curve to the last of its
// points, Z closes the path.
type segment struct {
	op     byte
	points [3]point
}

// used returns the points that the operation uses.
func (s *segment) used() []point {
	switch s.op {
	case 'Z':
		return nil
	case 'C':
		return s.points[:]
	}
	return s.points[:1]
}

// path is an area, a line or both. An empty colour draws nothing.
type path struct {
	segments     []segment
	fill, stroke string
	width        float64
	dash         []float64
	note         string
}

// text stands on a baseline. anchor is the share of its width before x; an upward text reads
// from bottom to top.
type text struct {
	x, y, size, anchor float64
	upward             bool
	text               string
}

func moveTo(x, y float64) segment { return segment{'M', [3]point{{x, y}}} }
func lineTo(x, y float64) segment { return segment{'L', [3]point{{x, y}}} }

func polygon(points ...point) []segment {
	segments := polyline(points)
	return append(segments, segment{op: 'Z'})
}

func polyline(points []point) []segment {
	segments := make([]segment, len(points))
	for i, p := range points {
		segments[i] = lineTo(p.x, p.y)
	}
	segments[0].op = 'M'
	return segments
}

func rectangle(x, y, width, height float64) []segment {
	return polygon(point{x, y}, point{x + width, y}, point{x + width, y + height}, point{x, y + height})
}

// quarter is the distance of the control points of a Bézier curve that is nearly a quarter of a
// circle of radius 1: 4/3 tan(pi/8).
const quarter = 0.5522847498

func circle(x, y, r float64) []segment {
	k := r * quarter
	return []segment{
		moveTo(x+r, y),
		{'C', [3]point{{x + r, y + k}, {x + k, y + r}, {x, y + r}}},
		{'C', [3]point{{x - k, y + r}, {x - r, y + k}, {x - r, y}}},
		{'C', [3]point{{x - r, y - k}, {x - k, y - r}, {x, y - r}}},
		{'C', [3]point{{x + k, y - r}, {x + r, y - k}, {x + r, y}}},
		{op: 'Z'},
	}
}

// flat returns the lines of a path with curves divided into short lines. A closed line ends at
// its start.
func flat(segments []segment) (lines [][]point) {
	const parts = 8
	for _, s := range segments {
		last := len(lines) - 1
		switch s.op {
		case 'M':
			lines = append(lines, []point{s.points[0]})
		case 'L':
			lines[last] = append(lines[last], s.points[0])
		case 'C':
			from := lines[last][len(lines[last])-1]
			for i := 1; i <= parts; i++ {
				lines[last] = append(lines[last], bezier(from, &s.points, float64(i)/parts))
			}
		case 'Z':
			lines[last] = append(lines[last], lines[last][0])
		}
	}
	return lines
}

func bezier(p point, c *[3]point, t float64) point {
	u := 1 - t
	a, b, d, e := u*u*u, 3*u*u*t, 3*u*t*t, t*t*t
	return point{a*p.x + b*c[0].x + d*c[1].x + e*c[2].x, a*p.y + b*c[0].y + d*c[1].y + e*c[2].y}
}

// dashed cuts a line into dashes; without a pattern it returns the whole line.
func dashed(line []point, pattern []float64) (dashes [][]point) {
	if len(pattern) == 0 {
		return [][]point{line}
	}
	k, left, current := 0, pattern[0], []point{line[0]}
	for i := 1; i < len(line); i++ {
		from, to := line[i-1], line[i]
		for length := math.Hypot(to.x-from.x, to.y-from.y); length > left; length = math.Hypot(to.x-from.x, to.y-from.y) {
			from = point{from.x + (to.x-from.x)*left/length, from.y + (to.y-from.y)*left/length}
			if k%2 == 0 {
				dashes = append(dashes, append(current, from))
			}
			current, k = []point{from}, k+1
			left = pattern[k%len(pattern)]
		}
		left -= math.Hypot(to.x-from.x, to.y-from.y)
		current = append(current, to)
	}
	if k%2 == 0 {
		dashes = append(dashes, current)
	}
	return dashes
}

// SVG returns the figure as a file. It contains texts, in a font with the metrics of Arial; a
// different font is stretched to fit.
func (f *Figure) SVG(w Width) []byte {
	s := f.scene(w)
	c := &svgCanvas{}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" width="%spt" height="%spt" viewBox="0 0 %[1]s %[2]s" role="img" aria-label="%s" font-family="%s">`+"\n",
		coordinate(s.width), coordinate(s.height), escaped(s.title), family)
	s.drawOn(c)
	c.WriteString("</svg>\n")
	return c.Bytes()
}

type svgCanvas struct{ bytes.Buffer }

func (c *svgCanvas) path(p *path) {
	c.WriteString(`<path d="`)
	for _, s := range p.segments {
		c.WriteByte(s.op)
		for i, q := range s.used() {
			if i > 0 {
				c.WriteByte(' ')
			}
			c.WriteString(coordinate(q.x) + " " + coordinate(q.y))
		}
	}
	fmt.Fprintf(c, `" fill="%s"`, cmp.Or(p.fill, "none"))
	if p.stroke != "" {
		fmt.Fprintf(c, ` stroke="%s" stroke-width="%s" stroke-linejoin="round"`, p.stroke, coordinate(p.width))
	}
	if len(p.dash) > 0 {
		fmt.Fprintf(c, ` stroke-dasharray="%s"`, strings.Trim(fmt.Sprint(p.dash), "[]"))
	}
	if p.note == "" {
		c.WriteString("/>\n")
		return
	}
	fmt.Fprintf(c, "><title>%s</title></path>\n", escaped(p.note))
}

func (c *svgCanvas) text(t *text) {
	anchor := map[float64]string{0: "start", 0.5: "middle", 1: "end"}[t.anchor]
	fmt.Fprintf(c, `<text x="%s" y="%s" font-size="%s" text-anchor="%s" textLength="%s" lengthAdjust="spacingAndGlyphs"`, coordinate(t.x), coordinate(t.y), coordinate(t.size), anchor, coordinate(widthOf(t.text, t.size)))
	if t.upward {
		fmt.Fprintf(c, ` transform="rotate(-90 %s %s)"`, coordinate(t.x), coordinate(t.y))
	}
	fmt.Fprintf(c, ">%s</text>\n", escaped(t.text))
}

// coordinate formats a number with a precision of 0.01 points.
func coordinate(v float64) string {
	text := strings.TrimRight(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
	if text == "-0" {
		return "0"
	}
	return text
}

func escaped(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a Buffer never fails
	return b.String()
}
