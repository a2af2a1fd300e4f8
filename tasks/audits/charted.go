package audits

import (
	"cmp"

	"coalmine/internal/encoding"
)

// MemorizedFigure is the figure of audits that count memorized canaries.
const MemorizedFigure = "Canaries memorized"

// Curve is a line through a metric of every measured round.
type Curve struct {
	// Figure is the name of the figure, which several curves may share. Empty: the metric is in the data of the
	// curve, but not drawn. Name is the name of the curve.
	Figure, Name string
	// Axis is the title of the vertical axis, with its unit. The default is Figure.
	Axis string
	// Metric is a metric of the audit's last node. The default is the name of the measure.
	Metric string
	// AxisEnd returns the end of the axis for the last outcome. The default is 100 for a percentage, otherwise
	// the number Among which the measure counts, or its own value.
	AxisEnd func(Outcome) float64
	// Ends returns the smallest and the largest value that the curve can have with an outcome. Curves sets
	// it.
	Ends func(Outcome) (least, most float64)
}

// Curves returns the drawn curves of the measures, with their Metric, AxisEnd and Ends.
func (d *Description) Curves() (curves []Curve) {
	for i := range d.Measures {
		m := &d.Measures[i]
		if m.Curve == nil || m.Curve.Figure == "" {
			continue
		}
		c := *m.Curve
		c.Metric = m.metric()
		switch {
		case c.AxisEnd != nil:
		case m.Scale == Percent:
			c.AxisEnd = func(Outcome) float64 { return Percent.Of(1) }
		default:
			c.AxisEnd = d.among(m).number
		}
		c.Ends = func(v Outcome) (least, most float64) {
			if m.Among != "" {
				return 0, d.among(m).number(v)
			}
			least, most = m.Range()
			return m.Scale.Of(least), m.Scale.Of(most)
		}
		curves = append(curves, c)
	}
	return curves
}

func (m *Measure) metric() string { return cmp.Or(m.Curve.Metric, m.Name) }

// metrics returns the printed numbers of the measures with a curve, without missing ones.
func metrics(measures []Measure, v Outcome) (object encoding.Object, err error) {
	for i := range measures {
		m := &measures[i]
		if m.Curve == nil {
			continue
		}
		number := m.Of.of(v)
		if printed, ok := m.Interval(v); ok {
			number = printed.Value
		}
		if number != nil && err == nil {
			err = object.Set(m.metric(), number)
		}
	}
	return object, err
}

// PrecisionRecall returns the figure of the precision at recalls of 1%, 2%, ...
func PrecisionRecall(name, about string, precisions []float64, chance float64) *Figure {
	f := &Figure{Name: name, About: about, Title: "precision in % against recall in %", X: Axis{Title: "recall (%)", Max: 100}, Y: Axis{Title: "precision (%)", Max: 100}, Limit: 100 * chance}
	for i, precision := range precisions {
		f.Line = append(f.Line, Point{X: float64(i + 1), Y: 100 * precision})
	}
	return f
}

// HeatMap is a table of numbers of at least 0; larger ones are darker. Maps with one name share their scale
// in all cells.
type HeatMap struct {
	// Name is the caption, About explains it, Title describes it for screen readers.
	Name, About, Title string
	// Rows and Columns are the labels.
	Rows, Columns []string
	// Down and Across are the titles of rows and columns.
	Down, Across string
	// Values are indexed by row and column; NaN if missing.
	Values [][]float64
}

// Attack is the result of one attack, by its display name: a row of tables. Measures that do not apply are nil.
type Attack struct {
	Attack     string   `parquet:"attack" doc:"attack"`
	Of         string   `parquet:"of" doc:"items that the attack ranks"`
	Users      *int64   `parquet:"users" doc:"users that the numbers are means over, or whose items are ranked"`
	Items      *int64   `parquet:"items" doc:"ranked items"`
	AP         float64  `parquet:"ap" doc:"average precision of the attack, from 0 to 1"`
	APLow      *float64 `parquet:"ap_low" doc:"lower end of the interval of ap"`
	APHigh     *float64 `parquet:"ap_high" doc:"upper end of the interval of ap"`
	Chance     float64  `parquet:"chance" doc:"average precision by chance"`
	Factor     float64  `parquet:"factor" doc:"ap over chance"`
	FactorLow  *float64 `parquet:"factor_low" doc:"lower end of the interval of factor"`
	FactorHigh *float64 `parquet:"factor_high" doc:"upper end of the interval of factor"`
	Share      *float64 `parquet:"share" doc:"share of relevant items: the chance of Orekondy et al. 2018"`
	Top1       *float64 `parquet:"top1" doc:"share of items whose user scores highest"`
	Top1Chance *float64 `parquet:"top1_chance" doc:"top1 by chance"`
	Top5       *float64 `parquet:"top5" doc:"share of items whose user is among the five highest scores"`
	Top5Chance *float64 `parquet:"top5_chance" doc:"top5 by chance"`
	AUC        *float64 `parquet:"auc" doc:"area under the receiver operating characteristic (AUC), 0.5 by chance"`
	P          *float64 `parquet:"p" doc:"p-value of ap if devices had random owners"`
	// NetworksAP and NetworksSD are the mean and the standard deviation of AP over networks with other initial
	// values. The interval of AP is over users and does not cover this variation.
	NetworksAP *float64 `parquet:"networks_ap" doc:"mean of ap over networks with other initial values"`
	NetworksSD *float64 `parquet:"networks_sd" doc:"standard deviation of ap over networks with other initial values"`
}

// MemberAttack is the result of a membership attack on users, or of the baseline without a model, by its display
// name: a row of tables. Intervals are at Confidence, over users. Numbers are nil if not estimable.
type MemberAttack struct {
	Attack        string   `parquet:"attack" doc:"attack"`
	Of            string   `parquet:"of" doc:"users who are compared with held-out users: members, or users with canaries"`
	Users         int64    `parquet:"users" doc:"users who are compared with held-out ones"`
	AUC           float64  `parquet:"auc" doc:"area under the receiver operating characteristic (AUC), 0.5 by chance"`
	AUCLow        float64  `parquet:"auc_low" doc:"lower end of the 95% interval of auc over users"`
	AUCHigh       float64  `parquet:"auc_high" doc:"upper end of the 95% interval of auc over users"`
	P             float64  `parquet:"p" doc:"p-value of auc by the test of Mann and Whitney"`
	TPR1          *float64 `parquet:"tpr_1" doc:"true positive rate at a false positive rate of 1%"`
	TPR1Low       *float64 `parquet:"tpr_1_low" doc:"lower end of the 95% interval of tpr_1"`
	TPR1High      *float64 `parquet:"tpr_1_high" doc:"upper end of the 95% interval of tpr_1"`
	TPR01         *float64 `parquet:"tpr_01" doc:"true positive rate at a false positive rate of 0.1%"`
	TPR01Low      *float64 `parquet:"tpr_01_low" doc:"lower end of the 95% interval of tpr_01"`
	TPR01High     *float64 `parquet:"tpr_01_high" doc:"upper end of the 95% interval of tpr_01"`
	BlindAUC      *float64 `parquet:"blind_auc" doc:"AUC of a classifier that sees the texts of the same users and no model"`
	OverBlind     *float64 `parquet:"over_blind" doc:"auc less blind_auc"`
	OverBlindLow  *float64 `parquet:"over_blind_low" doc:"lower end of the 95% interval of over_blind"`
	OverBlindHigh *float64 `parquet:"over_blind_high" doc:"upper end of the 95% interval of over_blind"`
}

// AttackedUser is the result of an attack for one user: a row of tables.
type AttackedUser struct {
	Attack string  `parquet:"attack" doc:"attack"`
	User   int64   `parquet:"user" doc:"number of the user in the data"`
	AP     float64 `parquet:"ap" doc:"average precision of the attack for the user"`
	Chance float64 `parquet:"chance" doc:"average precision by chance for the user"`
}
