package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

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
	fmt.Fprintf(c, `" fill="%s"`, orNone(p.fill))
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

func orNone(colour string) string {
	if colour == "" {
		return "none"
	}
	return colour
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
