package results

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"coalmine/internal/chart"
	"coalmine/internal/lists"
)

//go:embed report.css
var pageStyle string

// writeHTML writes a standalone page without scripts: the table and its legends, the pictures of the cells
// side by side, the figures of all cells together, and for every cell the figures of its audits and their
// curves during training.
func (v *view) writeHTML(w io.Writer) error {
	figures, err := v.drawings()
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(w)
	if err := v.page(figures).Render(buffered); err != nil {
		return err
	}
	return buffered.Flush()
}

func (v *view) page(figures *drawings) g.Node {
	return g.Group{
		g.Raw("<!DOCTYPE html>\n"),
		h.HTML(h.Lang("en"), onLines(
			h.Head(onLines(
				h.Meta(h.Charset("utf-8")),
				h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
				h.TitleEl(g.Text(v.Run+": memorization of the models")),
				h.StyleEl(newline, g.Raw(pageStyle)),
			)),
			h.Body(onLines(h.Main(onLines(v.parts(figures)...)))),
		)),
		newline,
	}
}

// parts returns the parts of the page, from top to bottom.
func (v *view) parts(figures *drawings) []g.Node {
	t := v.table()
	return []g.Node{
		h.H1(g.Text(v.Run)),
		h.P(g.Textf("Experiment %s, %s", v.Experiment, v.counts())),
		v.originPart(),
		tablePart("Memorization", t),
		g.Iff(t.Differences != nil, func() g.Node { return tablePart("Differences", t.Differences) }),
		g.If(t.Best != "", h.P(g.Text(t.Best))),
		v.attackParts(),
		g.If(len(t.NotesOnce) > 0, h.Ul(g.Map(t.NotesOnce, func(note string) g.Node { return h.Li(g.Text(note)) }))),
		newPictureGrid(v.cells, v.Results.Pictures).part(),
		togetherPart(figures.together),
		v.cellsPart(figures),
	}
}

// originPart tells when, where and from which experiment the results were computed.
func (v *view) originPart() g.Node {
	var facts, machines []string
	for i := range v.cells {
		c := &v.cells[i]
		if m := c.Made; m.Version != "" {
			place(&machines, fmt.Sprintf("coalmine %s on %s (%s, %s kernels)", m.Version, m.Host, m.Arch, m.Kernels))
		}
	}
	if o := v.Origin; o != nil {
		facts = append(facts, "submitted "+o.Submitted.UTC().Format(time.DateTime)+" UTC")
		if !o.Finished.IsZero() {
			facts = append(facts, "finished "+o.Finished.UTC().Format(time.DateTime)+" UTC")
		}
	}
	facts = append(facts, machines...)
	if o := v.Origin; o != nil && len(o.Seeds) > 0 {
		facts = append(facts, "seed "+strings.Trim(fmt.Sprint(o.Seeds), "[]"))
	}
	return g.Group{
		g.If(len(facts) > 0, h.P(g.Text("Made: "+strings.Join(facts, "; ")+"."))),
		g.Iff(v.Origin != nil && v.Origin.Recipe != "", func() g.Node {
			return h.Details(h.Summary(g.Text("Recipe")), h.Pre(g.Text(v.Origin.Recipe)),
				link("Save the recipe", v.Run+".yaml", "application/yaml", []byte(v.Origin.Recipe)))
		}),
	}
}

func tablePart(title string, t *Table) g.Node {
	return g.Group{
		h.H2(g.Text(title)), newline,
		tableNode("Results", t.Header, t.Abouts, t.texts()), newline,
		h.Details(h.Summary(g.Text("Columns")), h.Ul(g.Map(t.Legends, func(legend string) g.Node { return h.Li(g.Text(legend)) }))),
	}
}

// attackParts returns nil if there were no attacks.
func (v *view) attackParts() g.Node {
	if tables := v.attackTables(); len(tables) > 0 {
		return g.Map(tables, attackTable.part)
	}
	return nil
}

func (t attackTable) part() g.Node {
	return g.Group{h.H2(g.Text(t.Title)), newline, tableNode(t.Label, t.Header, nil, t.Rows)}
}

// tableNode returns a table that scrolls horizontally. abouts, if not nil, are the tooltips of its header.
func tableNode(label string, header, abouts []string, rows [][]string) g.Node {
	var headers []g.Node
	for i, text := range header {
		headers = append(headers, h.Th(g.Attr("scope", "col"), g.Iff(abouts != nil && abouts[i] != "", func() g.Node { return h.Title(abouts[i]) }), g.Text(unbroken(text))))
	}
	cell := func(text string) g.Node { return h.Td(g.Text(text)) }
	row := func(texts []string) g.Node { return h.Tr(g.Map(texts, cell)) }
	return h.Div(h.Class("scroll"), h.Role("region"), h.Aria("label", label), h.TabIndex("0"), h.Table(onLines(
		h.THead(h.Tr(headers...)),
		h.TBody(onLines(g.Map(rows, row)...)),
	)))
}

// brackets matches a short text in brackets.
var brackets = regexp.MustCompile(`\([^()]{1,30}\)`)

// unbroken prevents line breaks within the brackets of a header.
func unbroken(text string) string {
	return brackets.ReplaceAllStringFunc(text, func(part string) string { return strings.ReplaceAll(part, " ", "\u00a0") })
}

func (p *pictureGrid) part() g.Node {
	if p == nil {
		return nil
	}
	return g.Group{
		h.H2(g.Text("Pictures, side by side")), newline,
		h.P(g.Text(p.About + " Small pictures are of earlier rounds.")), newline,
		h.Div(h.Class("sheets"), h.Style(fmt.Sprintf("grid-template-columns: repeat(%d, minmax(0, 1fr))", p.Columns)), onLines(g.Map(p.Cells, picturedCell.node)...)),
	}
}

func (c picturedCell) node() g.Node {
	return h.Section(h.Style(fmt.Sprintf("grid-row: %d; grid-column: %d", c.Row, c.Column)), newline,
		h.H3(g.Text(c.Name+" "+c.Label)), onLines(g.Map(c.Series, pictureSeries.node)...))
}

func (s pictureSeries) node() g.Node {
	return g.Group{s.Newest.node(), g.If(len(s.Earlier) > 0, h.Div(h.Class("earlier"), g.Map(s.Earlier, htmlPicture.node)))}
}

func (p htmlPicture) node() g.Node {
	return h.Figure(h.Img(h.Src(p.Source), h.Alt(p.Text)), h.FigCaption(g.Text(p.Caption)))
}

// node returns the figure for a page, with links that save it and its numbers.
func (d *drawing) node() g.Node {
	svg := d.SVG(chart.OneColumn)
	var numbers bytes.Buffer
	_ = d.WriteCSV(&numbers) // a Buffer returns no error
	name := FileName(d.Title)
	return h.Figure(
		g.Raw(string(svg)),
		h.FigCaption(g.Text(d.Caption+" "), link("SVG", name+".svg", "image/svg+xml", svg), g.Text(" "), link("CSV", name+".csv", "text/csv", numbers.Bytes())),
	)
}

// link returns a link that saves data as a file.
func link(text, file, kind string, data []byte) g.Node {
	source := "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)
	return h.A(h.Class("save"), g.Attr("download", file), h.Href(source), g.Text(text))
}

func togetherPart(figures []*drawing) g.Node {
	if len(figures) == 0 {
		return nil
	}
	return g.Group{h.H2(g.Text("All cells together")), newline, h.Div(h.Class("cells"), onLines(g.Map(figures, (*drawing).node)...))}
}

func (v *view) cellsPart(figures *drawings) g.Node {
	sections := lists.Make(len(v.cells), func(i int) g.Node { return v.cells[i].section(&figures.cells[i]) })
	return g.Group{
		h.H2(g.Text("Cell by cell")),
		onLines(g.Map(figures.about, func(about string) g.Node {
			return h.P(g.Text(about + " These figures have the same scales in all cells."))
		})...),
		h.Div(h.Class("cells"), onLines(sections...)),
	}
}

func (v *viewCell) section(figures *cellDrawings) g.Node {
	failed := func(text string) g.Node { return h.P(h.Class("failed"), g.Text(text)) }
	status := failed(v.Status)
	if v.Status != Failed && v.Status != Cancelled {
		status = h.P(g.Text(v.Status)) // the cell waits or runs
	}
	return h.Section(
		onLines(h.H3(g.Text(v.Cell.Cell+" "+v.Label)), g.If(v.Status != Done, status)),
		g.Map(v.Breaches, func(breach string) g.Node { return failed("gate failed: " + breach) }),
		g.Map(v.Unjudged, func(number string) g.Node { return h.P(g.Text("not judged: " + number)) }),
		onLines(g.Map(figures.last, (*drawing).node)...),
		onLines(g.Map(figures.earlier, roundDrawings.node)...),
	)
}

func (r roundDrawings) node() g.Node {
	return h.Details(h.Summary(g.Textf("after %d", r.round)), g.Map(r.figures, (*drawing).node))
}

var newline = g.Raw("\n")

// onLines renders each node on a line of its own.
func onLines(nodes ...g.Node) g.Node {
	all := g.Group{newline}
	for _, n := range nodes {
		if n != nil {
			all = append(all, n, newline)
		}
	}
	return all
}
