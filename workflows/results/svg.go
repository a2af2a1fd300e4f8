package results

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

//go:embed figure.css
var figureStyle string

// node is the figure within a page, with a link that saves it.
func (d *drawing) node() g.Node {
	saved := "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(d.alone())
	return h.Figure(
		h.SVG(d.Frame.viewBox(), d.marks()),
		h.A(h.Class("save"), g.Attr("download", FileName(d.Frame.Title)+".svg"), h.Href(saved), g.Text("Save as SVG")),
		h.FigCaption(g.Text(d.Caption)),
	)
}

// alone is the figure as a file.
func (d *drawing) alone() []byte {
	var b bytes.Buffer
	svg := h.SVG(g.Attr("xmlns", "http://www.w3.org/2000/svg"), d.Frame.viewBox(), h.StyleEl(newline, g.Raw(figureStyle)), d.marks())
	_ = g.Group{svg, newline}.Render(&b) // a Buffer takes all
	return b.Bytes()
}

func (f *frame) viewBox() g.Node {
	return g.Group{g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", f.Width, f.Height)), h.Role("img"), h.Aria("label", f.Title)}
}

// marks are the axes and all that is drawn between them, from the back to the front.
func (d *drawing) marks() g.Node {
	marks := append(g.Map(d.Squares, square.node), pathNode("bars", d.Bars))
	marks = append(marks, g.Map(d.Lines, line.node)...)
	marks = append(marks, pathNode("ranges", d.Ranges), pathNode("limit", d.Limit))
	return g.Group{d.Frame.axes(), onLines(append(marks, g.Map(d.Dots, dot.node)...)...)}
}

func (f *frame) axes() g.Node {
	x := func(t tick) g.Node {
		return g.Group{
			g.If(!t.Bare, pathNode("grid", fmt.Sprintf("M%v %dV%d", t.At, f.Top, f.Bottom))),
			label(t.Text, attr("x", t.At), attr("y", f.TickLine), attr("text-anchor", "middle")),
		}
	}
	y := func(t tick) g.Node {
		return g.Group{
			g.If(!t.Bare, pathNode("grid", fmt.Sprintf("M%d %vH%d", f.Left, t.At, f.Right))),
			label(t.Text, attr("x", f.TickColumn), attr("y", t.At), attr("dy", 4), attr("text-anchor", "end")),
		}
	}
	return onLines(append(g.Map(f.XTicks, x), g.Map(f.YTicks, y)...)...)
}

func (s square) node() g.Node {
	return g.Group{
		g.El("rect", h.Class("heat"), attr("x", s.X), attr("y", s.Y), attr("width", s.Width), attr("height", s.Height), attr("fill-opacity", s.Opacity), tooltip(s.Title)),
		label(s.Text, h.Class("number"), attr("x", s.TextX), attr("y", s.TextY), attr("dy", 4), attr("text-anchor", "middle")),
	}
}

func (l line) node() g.Node {
	return emptyElement("polyline", h.Class(l.Class), attr("points", l.Points))
}

func (d dot) node() g.Node {
	class := strings.TrimSpace("dot " + d.Class)
	if d.Filled {
		class += " filled"
	}
	if d.Grey {
		class += " grey"
	}
	return g.El("circle", h.Class(class), attr("cx", d.X), attr("cy", d.Y), attr("r", 3.5), tooltip(d.Title))
}

// pathNode is nil if there is nothing to draw.
func pathNode(class, d string) g.Node {
	if d == "" {
		return nil
	}
	return emptyElement("path", h.Class(class), attr("d", d))
}

func label(text string, attributes ...g.Node) g.Node {
	return g.El("text", g.Group(attributes), g.Text(text))
}

// tooltip is the text that a browser shows above an element.
func tooltip(text string) g.Node { return g.El("title", g.Text(text)) }

func attr(name string, value any) g.Node { return g.Attr(name, fmt.Sprint(value)) }

// emptyElement is an SVG element without content. g.El would write the end tag too.
func emptyElement(name string, attributes ...g.Node) g.Node {
	return g.NodeFunc(func(w io.Writer) error {
		if _, err := io.WriteString(w, "<"+name); err != nil {
			return err
		}
		for _, a := range attributes {
			if err := a.Render(w); err != nil {
				return err
			}
		}
		_, err := io.WriteString(w, "/>")
		return err
	})
}
