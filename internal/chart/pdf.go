package chart

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"strconv"
	"strings"
)

// PDF returns a document with a page for each figure. Texts are outlines, so that no font is missing.
func PDF(w Width, figures ...*Figure) []byte {
	d := new(pdf)
	d.WriteString("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
	pages := make([]string, len(figures))
	for i := range figures {
		pages[i] = fmt.Sprintf("%d 0 R", 3+2*i)
	}
	d.object("<< /Type /Catalog /Pages 2 0 R >>")
	d.object(fmt.Sprintf("<< /Type /Pages /Count %d /Kids [%s] >>", len(pages), strings.Join(pages, " ")))
	for i, f := range figures {
		s := f.scene(w)
		d.object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %s %s] /Resources << >> /Contents %d 0 R >>", coordinate(s.width), coordinate(s.height), 4+2*i))
		content := s.content()
		d.object(fmt.Sprintf("<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream", len(content), content))
	}
	start := d.Len()
	fmt.Fprintf(d, "xref\n0 %d\n0000000000 65535 f \n", len(d.offsets)+1)
	for _, offset := range d.offsets {
		fmt.Fprintf(d, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(d, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(d.offsets)+1, start)
	return d.Bytes()
}

// pdf is a document with the byte offsets of its objects.
type pdf struct {
	bytes.Buffer
	offsets []int
}

func (d *pdf) object(body string) {
	d.offsets = append(d.offsets, d.Len())
	fmt.Fprintf(d, "%d 0 obj\n%s\nendobj\n", len(d.offsets), body)
}

// content is the compressed content of the page.
func (s *scene) content() []byte {
	c := new(pdfCanvas)
	fmt.Fprintf(c, "1 0 0 -1 0 %s cm 1 j\n", coordinate(s.height)) // y grows downwards
	s.drawOn(c)
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(c.Bytes()) // a Buffer never fails
	_ = z.Close()
	return b.Bytes()
}

type pdfCanvas struct{ bytes.Buffer }

func (c *pdfCanvas) text(t *text) { c.path(t.outline()) }

func (c *pdfCanvas) path(p *path) {
	if len(p.segments) == 0 {
		return // the text is blank
	}
	if p.fill != "" {
		c.WriteString(pdfColour(p.fill) + " rg ")
	}
	if p.stroke != "" {
		fmt.Fprintf(c, "%s RG %s w [%s] 0 d ", pdfColour(p.stroke), coordinate(p.width), strings.Trim(fmt.Sprint(p.dash), "[]"))
	}
	for _, s := range p.segments {
		for _, q := range s.used() {
			c.WriteString(coordinate(q.x) + " " + coordinate(q.y) + " ")
		}
		c.WriteString(map[byte]string{'M': "m ", 'L': "l ", 'C': "c ", 'Z': "h "}[s.op])
	}
	switch {
	case p.stroke == "":
		c.WriteString("f\n")
	case p.fill == "":
		c.WriteString("S\n")
	default:
		c.WriteString("B\n")
	}
}

// pdfColour converts "#rrggbb" to three shares of 1.
func pdfColour(hex string) string {
	var shares [3]string
	for i, v := range rgb(hex) {
		shares[i] = strconv.FormatFloat(float64(v)/255, 'f', 3, 64)
	}
	return strings.Join(shares[:], " ")
}

// rgb reads "#rrggbb".
func rgb(hex string) (colour [3]uint8) {
	v, _ := strconv.ParseUint(hex[1:], 16, 32)
	return [3]uint8{uint8(v >> 16), uint8(v >> 8), uint8(v)} //nolint:gosec // bytes of a number
}
