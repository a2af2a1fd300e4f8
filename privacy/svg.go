package privacy

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// The picture's size and the margins of its plot, in pixels.
const (
	svgWidth, svgHeight = 640, 400
	svgLeft, svgRight   = 70, 20
	svgTop, svgBottom   = 40, 50
	svgLabel, svgTick   = 14, 5 // distances of titles and numbers from an edge
)

const (
	colourPapers = "#2563eb"
	colourProved = "#dc2626"
	svgTextStyle = `font-family="sans-serif" font-size="12" fill="#333"`
	svgNamespace = "http://www.w3.org/2000/svg"
)

// WriteSVG draws both epsilons against rounds, on logarithmic axes, as one line
// if they are equal. It needs two or more reports with different numbers of
// rounds, 1 or above, and finite epsilons above 0; it leaves out others.
func WriteSVG(w io.Writer, reports []Report) error {
	reports = drawable(reports)
	plot, err := newPlot(reports)
	if err != nil {
		return err
	}
	var b strings.Builder
	beginSVG(&b)
	plot.axes(&b, fmt.Sprintf("epsilon at delta %g, %s conversion", reports[0].Delta, reports[0].Conversion))
	if !reports[0].proved() {
		plot.line(&b, reports, colourPapers, func(r Report) Epsilon { return r.Epsilon })
	}
	plot.line(&b, reports, colourProved, func(r Report) Epsilon { return r.EpsilonProved })
	legend(&b, reports[0])
	b.WriteString("</svg>\n")
	_, err = io.WriteString(w, b.String())
	return err
}

// beginSVG opens a picture with a white background.
func beginSVG(b *strings.Builder) {
	fmt.Fprintf(b, `<svg xmlns="%s" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n", svgNamespace, svgWidth, svgHeight, svgWidth, svgHeight)
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", svgWidth, svgHeight)
}

func drawable(reports []Report) []Report {
	var out []Report
	for _, r := range reports {
		if r.Rounds >= 1 && positive(float64(r.Epsilon)) && positive(float64(r.EpsilonProved)) {
			out = append(out, r)
		}
	}
	return out
}

// plot maps rounds and epsilon to pixels. Its bounds are decimal logarithms.
type plot struct {
	roundsLow, roundsHigh   float64
	epsilonLow, epsilonHigh float64
}

func newPlot(reports []Report) (plot, error) {
	p := plot{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)}
	for _, r := range reports {
		x := math.Log10(float64(r.Rounds))
		p.roundsLow, p.roundsHigh = math.Min(p.roundsLow, x), math.Max(p.roundsHigh, x)
		for _, e := range []Epsilon{r.Epsilon, r.EpsilonProved} {
			y := math.Log10(float64(e))
			p.epsilonLow, p.epsilonHigh = math.Min(p.epsilonLow, y), math.Max(p.epsilonHigh, y)
		}
	}
	if !(p.roundsHigh > p.roundsLow) {
		return plot{}, fmt.Errorf("a plot of epsilon against rounds needs a finite epsilon for at least two different numbers of rounds")
	}
	p.epsilonLow, p.epsilonHigh = math.Floor(p.epsilonLow), math.Max(math.Ceil(p.epsilonHigh), math.Floor(p.epsilonLow)+1)
	return p, nil
}

func (p plot) x(logRounds float64) float64 {
	return svgLeft + (svgWidth-svgLeft-svgRight)*(logRounds-p.roundsLow)/(p.roundsHigh-p.roundsLow)
}

func (p plot) y(logEpsilon float64) float64 {
	return svgHeight - svgBottom - (svgHeight-svgTop-svgBottom)*(logEpsilon-p.epsilonLow)/(p.epsilonHigh-p.epsilonLow)
}

// axes draws frame, grid lines at powers of ten, and titles.
func (p plot) axes(b *strings.Builder, title string) {
	right, bottom := svgWidth-svgRight, svgHeight-svgBottom
	for e := p.epsilonLow; e <= p.epsilonHigh; e++ {
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ddd"/>`+"\n", svgLeft, p.y(e), right)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end" %s>%g</text>`+"\n", svgLeft-svgTick, p.y(e)+4, svgTextStyle, math.Pow(10, e))
	}
	for _, x := range p.roundTicks() {
		fmt.Fprintf(b, `<path d="M%.1f %dV%d" stroke="#ddd"/>`+"\n", p.x(x), svgTop, bottom)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" %s>%.0f</text>`+"\n", p.x(x), bottom+svgLabel+2, svgTextStyle, math.Pow(10, x))
	}
	p.frame(b, "rounds", title)
}

// frame draws the axes and their titles.
func (plot) frame(b *strings.Builder, below, beside string) {
	right, bottom := svgWidth-svgRight, svgHeight-svgBottom
	fmt.Fprintf(b, `<path d="M%d %dV%dH%d" fill="none" stroke="#333"/>`+"\n", svgLeft, svgTop, bottom, right)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" %s>%s</text>`+"\n", (svgLeft+right)/2, svgHeight-svgLabel, svgTextStyle, below)
	fmt.Fprintf(b, `<text transform="translate(%d %d) rotate(-90)" text-anchor="middle" %s>%s</text>`+"\n", svgLabel+4, (svgTop+bottom)/2, svgTextStyle, beside)
}

// roundTicks returns the powers of ten in range, or both ends if there are
// fewer than two.
func (p plot) roundTicks() []float64 {
	var ticks []float64
	for x := math.Ceil(p.roundsLow); x <= p.roundsHigh; x++ {
		ticks = append(ticks, x)
	}
	if len(ticks) < 2 {
		return []float64{p.roundsLow, p.roundsHigh}
	}
	return ticks
}

func (p plot) line(b *strings.Builder, reports []Report, colour string, value func(Report) Epsilon) {
	points := make([]string, len(reports))
	for i, r := range reports {
		points[i] = fmt.Sprintf("%.1f,%.1f", p.x(math.Log10(float64(r.Rounds))), p.y(math.Log10(float64(value(r)))))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour)
}

func legend(b *strings.Builder, r Report) {
	entry := func(x int, colour, text string) {
		fmt.Fprintf(b, `<path d="M%d 20h20" stroke="%s" stroke-width="2"/><text x="%d" y="24" %s>%s</text>`+"\n", x, colour, x+25, svgTextStyle, text)
	}
	if r.proved() {
		entry(svgLeft, colourProved, fmt.Sprintf("epsilon, proved, %s", r.Neighbouring))
		return
	}
	entry(svgLeft, colourPapers, "epsilon, papers' convention")
	entry(svgLeft+200, colourProved, fmt.Sprintf("epsilon_proved, %s", r.Neighbouring))
}
