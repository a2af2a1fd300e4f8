package chart

import (
	"slices"
	"strings"
	"sync"

	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// family lists fonts of the same metrics; each system has one of them.
const family = "Liberation Sans, Arial, Helvetica, sans-serif"

var liberation = sync.OnceValue(func() *sfnt.Font {
	f, err := sfnt.Parse(liberationsansregular.TTF)
	if err != nil {
		panic("the font that is built in is damaged: " + err.Error())
	}
	return f
})

// glyph is a letter at size 1.
type glyph struct {
	width    float64
	segments sfnt.Segments
}

// glyphs caches glyphs by rune.
var glyphs sync.Map

// glyphOf returns an empty glyph, not a box, for a character that the font lacks.
func glyphOf(r rune) *glyph {
	if g, ok := glyphs.Load(r); ok {
		return g.(*glyph)
	}
	f, buffer, g := liberation(), new(sfnt.Buffer), new(glyph)
	units := fixed.I(int(f.UnitsPerEm()))
	if index, err := f.GlyphIndex(buffer, r); err == nil {
		if segments, err := f.LoadGlyph(buffer, index, units, nil); err == nil {
			g.segments = slices.Clone(segments) // the buffer is reused
		}
		if advance, err := f.GlyphAdvance(buffer, index, units, font.HintingNone); err == nil {
			g.width = float64(advance) / float64(units)
		}
	}
	glyphs.Store(r, g)
	return g
}

func widthOf(text string, size float64) (width float64) {
	for _, r := range text {
		width += size * glyphOf(r).width
	}
	return width
}

// outline converts the text to an area, for formats without fonts.
func (t *text) outline() *path {
	p, scale := &path{fill: black}, 1/float64(fixed.I(int(liberation().UnitsPerEm())))
	at := -t.anchor * widthOf(t.text, t.size)
	place := func(a fixed.Point26_6) point {
		return t.turn(at+t.size*float64(a.X)*scale, t.size*float64(a.Y)*scale)
	}
	for _, r := range t.text {
		g := glyphOf(r)
		p.segments = append(p.segments, g.outline(place)...)
		at += t.size * g.width
	}
	return p
}

// outline returns the placed curves of the glyph.
func (g *glyph) outline(place func(fixed.Point26_6) point) (segments []segment) {
	var last point
	for _, s := range g.segments {
		a := place(s.Args[0])
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			segments, last = append(segments, moveTo(a.x, a.y)), a
		case sfnt.SegmentOpLineTo:
			segments, last = append(segments, lineTo(a.x, a.y)), a
		case sfnt.SegmentOpQuadTo:
			b := place(s.Args[1])
			segments, last = append(segments, cubic(last, a, b)), b
		case sfnt.SegmentOpCubeTo: // never in TrueType
		}
	}
	return segments
}

// turn maps a position relative to the start of the text to the page.
func (t *text) turn(x, y float64) point {
	if t.upward {
		return point{t.x + y, t.y - x}
	}
	return point{t.x + x, t.y + y}
}

// cubic converts a quadratic Bézier curve to a cubic one.
func cubic(from, control, to point) segment {
	between := func(a, b point) point { return point{a.x + (b.x-a.x)*2/3, a.y + (b.y-a.y)*2/3} }
	return segment{'C', [3]point{between(from, control), between(to, control), to}}
}

// wrap breaks a text into lines no wider than width, between words if possible.
func wrap(text string, width, size float64) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if joined := strings.TrimSpace(line + " " + word); widthOf(joined, size) <= width {
			line = joined
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for line = word; widthOf(line, size) > width && len([]rune(line)) > 1; {
			runes, n := []rune(line), 1
			for widthOf(string(runes[:n+1]), size) <= width {
				n++
			}
			lines, line = append(lines, string(runes[:n])), string(runes[n:])
		}
	}
	return append(lines, line)
}
