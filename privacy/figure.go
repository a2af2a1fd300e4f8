package privacy

import (
	"fmt"
	"slices"

	"coalmine/internal/chart"
)

// EpsilonFigure draws both epsilons against rounds, on logarithmic axes, as one line if they are
// equal. It names Rényi divergences if they prove every report, because another accountant may prove a smaller epsilon. It uses the reports with one or more rounds and finite epsilons above 0, and needs two
// with different numbers of rounds.
func EpsilonFigure(reports []Report) (*chart.Figure, error) {
	reports = drawable(reports)
	if len(reports) == 0 || reports[0].Rounds == reports[len(reports)-1].Rounds {
		return nil, fmt.Errorf("a plot of epsilon against rounds needs a finite epsilon for at least two different numbers of rounds")
	}
	first := reports[0]
	f := &chart.Figure{Title: "epsilon by rounds", X: chart.Axis{Title: "rounds", Scale: chart.Log}, Y: chart.Axis{Scale: chart.Log}}
	f.Y.Title = fmt.Sprintf("epsilon at delta %g, %s conversion", first.Delta, first.Conversion)
	name := "proved"
	if !slices.ContainsFunc(reports, func(r Report) bool { return r.AccountantProved != RDP }) {
		name = "proved by Rényi divergences"
	}
	papers, proved := chart.Series{Name: "papers' convention", Kind: chart.Line, Style: 1}, chart.Series{Name: fmt.Sprintf("%s, %s", name, first.Neighbouring), Kind: chart.Line}
	for _, r := range reports {
		papers.Points = append(papers.Points, chart.Point{X: float64(r.Rounds), Y: float64(r.Epsilon)})
		proved.Points = append(proved.Points, chart.Point{X: float64(r.Rounds), Y: float64(r.EpsilonProved)})
	}
	if f.Series = []chart.Series{proved}; !first.proved() {
		f.Series = append(f.Series, papers)
	}
	return f, nil
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

// Figure draws the curve, and the curve of random guessing for comparison.
func (t *TradeOff) Figure() *chart.Figure {
	all := chart.Range{High: 1}
	f := &chart.Figure{Title: "false negatives by false positives", X: chart.Axis{Title: "false positives (share)", Range: all}, Y: chart.Axis{Title: "false negatives (share, at least)", Range: all}}
	curve := chart.Series{Name: "best test", Kind: chart.Line}
	const steps = 200
	for i := range steps + 1 {
		x := float64(i) / steps
		curve.Points = append(curve.Points, chart.Point{X: x * x, Y: t.At(x * x)}) // denser where the curve is steep
	}
	guess := chart.Series{Name: "random guess", Kind: chart.Line, Grey: true, Points: []chart.Point{{X: 0, Y: 1}, {X: 1, Y: 0}}}
	f.Series = []chart.Series{curve, guess}
	return f
}
