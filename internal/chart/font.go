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

// family lists fonts of the same metrics, one of which each system has.
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

// glyphs holds those that were asked for, by their runes.
var glyphs sync.Map

// glyphOf is empty for a character without a glyph in the font, even without its box.
func glyphOf(r rune) *glyph {
	if g, ok := glyphs.Load(r); ok {
		return g.(*glyph)
	}
	f, buffer, g := liberation(), new(sfnt.Buffer), new(glyph)
	units := fixed.I(int(f.UnitsPerEm()))
	if index, err := f.GlyphIndex(buffer, r); err == nil {
		if segments, err := f.LoadGlyph(buffer, index, units, nil); err == nil {
			g.segments = slices.Clone(segments) // the buffer's
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

// outline is the text as an area, for forms that do not carry fonts.
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

// outline has the curves of the glyph where they are placed.
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
		case sfnt.SegmentOpCubeTo: // TrueType has none
		}
	}
	return segments
}

// turn moves a place relative to the text's beginning onto the page.
func (t *text) turn(x, y float64) point {
	if t.upward {
		return point{t.x + y, t.y - x}
	}
	return point{t.x + x, t.y + y}
}

// cubic is a quadratic Bézier curve as a cubic one.
func cubic(from, control, to point) segment {
	between := func(a, b point) point { return point{a.x + (b.x-a.x)*2/3, a.y + (b.y-a.y)*2/3} }
	return segment{'C', [3]point{between(from, control), between(to, control), to}}
}

// wrap breaks a text into lines of at most a width, between words where it can.
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
