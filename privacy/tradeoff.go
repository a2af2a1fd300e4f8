package privacy

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
)

// TradeOff bounds from below the error rates of any test that distinguishes two neighbours by
// the outputs of a training. It is the greatest function that the guarantees (epsilon, delta)
// imply at a list of deltas (Dong, Roth and Su 2019, Gaussian Differential Privacy, Proposition
// 2.5).
type TradeOff struct {
	guarantees []Budget
}

// ErrorRates are the error rates of a test: the share of outputs without the member that it
// classifies as with, and the reverse.
type ErrorRates struct {
	FalsePositive float64 `json:"false_positive"`
	FalseNegative float64 `json:"false_negative_at_least"`
}

// NewTradeOff bounds the tests of all recipes together, at least one, by privacy loss
// distributions. Recipes compose as in [Compose]; the accountant is ignored.
func NewTradeOff(recipes []Recipe) (*TradeOff, error) {
	all, err := together(recipes, anyDelta)
	if err != nil {
		return nil, err
	}
	if math.IsInf(rho(all.steps), 1) {
		return &TradeOff{}, nil // there is no bound without noise
	}
	losses := all.relation.losses()
	apart, err := losses.delta(all.steps, 0)
	if err != nil {
		return nil, err
	}
	t := &TradeOff{guarantees: []Budget{{0, apart.Upper}}}
	for _, share := range tradeOffShares {
		delta := share * apart.Upper
		if !(delta > 0) {
			break
		}
		epsilon, err := losses.epsilon(all.steps, delta)
		if err != nil {
			return nil, err
		}
		t.guarantees = append(t.guarantees, Budget{epsilon.Upper, delta})
	}
	return t, nil
}

// anyDelta is a valid delta for recipes whose delta is ignored.
const anyDelta = 0.5

// tradeOffShares are the deltas of a curve, as shares of the delta at epsilon
// 0.
var tradeOffShares = []float64{
	0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9,
}

// At returns the least share of false negatives at a share of false positives, both within
// [0, 1].
func (t *TradeOff) At(falsePositive float64) float64 {
	least := 0.0
	for _, g := range t.guarantees {
		rest, loss := 1-g.Delta, 0.0
		if falsePositive > 0 { // avoids 0 x Inf
			loss = math.Exp(g.Epsilon) * falsePositive
		}
		least = max(least, rest-loss, math.Exp(-g.Epsilon)*(rest-falsePositive))
	}
	return least
}

// Points returns the points of the curve for output.
func (t *TradeOff) Points() []ErrorRates {
	var points []ErrorRates
	for _, x := range []float64{0, 1e-6, 1e-5, 1e-4, 1e-3, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1} {
		points = append(points, ErrorRates{x, t.At(x)})
	}
	return points
}

// WriteCSV writes a header and the points, one per line.
func (t *TradeOff) WriteCSV(w io.Writer) error {
	rows := [][]string{{"false_positive", "false_negative_at_least"}}
	for _, p := range t.Points() {
		rows = append(rows, []string{strconv.FormatFloat(p.FalsePositive, 'g', -1, 64), strconv.FormatFloat(p.FalseNegative, 'g', -1, 64)})
	}
	return csv.NewWriter(w).WriteAll(rows)
}
