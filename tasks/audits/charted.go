package audits

// MemorizedFigure is the figure of audits that count memorized canaries.
const MemorizedFigure = "Canaries memorized"

// Curve is a line through a metric of every round that was measured.
type Curve struct {
	// Figure is its figure's name. Curves of one figure stand in it together, and Name tells them
	// apart.
	Figure, Name string
	// Metric is the metric of the audit's last node; empty: that of the measure's name.
	Metric string
	// Most returns the largest value of the axis for the outcome of the last round; nil: the number
	// Among which the measure counts, or its own value.
	Most func(Outcome) float64
}

// Hundred is the Most of a metric in percent.
func Hundred(Outcome) float64 { return 100 }

// Curves returns the curves of the measures, with their Metric and Most.
func (d *Description) Curves() (curves []Curve) {
	for i := range d.Measures {
		m := &d.Measures[i]
		if m.Curve == nil {
			continue
		}
		c := *m.Curve
		if c.Metric == "" {
			c.Metric = m.Name
		}
		if c.Most == nil {
			c.Most = d.among(m).number
		}
		curves = append(curves, c)
	}
	return curves
}

// Charted is a number of outcomes that figures compare over the cells of a run: along the
// axes of the grid, and against the utility of the models.
type Charted struct {
	// Name says what it is, with its unit: "named AP, times chance".
	Name string
	// Level is what it is where nothing was found, drawn as a dashed line; 0 for none.
	Level float64
	// Of is false where the outcome has no such number.
	Of func(Outcome) (Bounded, bool)
}

// Bounded is a number, 0 or more, and an interval around it; both ends are the number where
// none is known.
type Bounded struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// PrecisionRecall returns the figure of the precision where 1%, 2%, ... of what is looked for are
// found, in percent.
func PrecisionRecall(name, about string, precisions []float64, chance float64) *Figure {
	f := &Figure{Name: name, About: about, Title: "precision in % against recall in %", X: Axis{Most: 100}, Y: Axis{Most: 100}, Limit: 100 * chance}
	for i, precision := range precisions {
		f.Line = append(f.Line, Point{X: float64(i + 1), Y: 100 * precision})
	}
	return f
}

// HeatMap is a table of numbers, 0 or more, that are drawn the darker the larger they are.
// Maps of one name have the same scale in all cells.
type HeatMap struct {
	// Name is its caption, About what is to be known to read it, Title what it shows, for those
	// who hear it.
	Name, About, Title string
	// Rows and Columns are what stands beside and below it.
	Rows, Columns []string
	// Values are [rows][columns]; NaN where there is none.
	Values [][]float64
}
