package audits

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Estimate is what several measurements of one number say, such as those of trainings that
// differ in the seed alone.
type Estimate struct {
	// N is how many there are, and Mean is theirs.
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	// SD is the standard deviation of one measurement, with N - 1 in the divisor; nil of a
	// single one.
	SD *float64 `json:"sd"`
	// Low and High are the interval of Student's t with N - 1 degrees of freedom: where
	// measurements are normal, they contain what is measured in Confidence of the cases. Nil
	// of a single one, and where all are equal: counts may be, whose spread is not 0.
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
}

// NewEstimate is that of some values, which are finite; nil of none.
func NewEstimate(values []float64) *Estimate {
	n := len(values)
	if n == 0 {
		return nil
	}
	e := &Estimate{N: n, Mean: values[0]}
	switch {
	case n == 1:
	case slices.Min(values) == slices.Max(values):
		e.SD = new(0.0)
	default:
		mean, sd := stat.MeanStdDev(values, nil)
		half := studentT(n-1) * sd / math.Sqrt(float64(n))
		e.Mean, e.SD, e.Low, e.High = mean, &sd, new(mean-half), new(mean+half)
	}
	return e
}

// studentT is how many standard errors the interval reaches to either side.
func studentT(degrees int) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: float64(degrees)}.Quantile(1 - (1-Confidence)/2)
}

// Pairing is what pairs of measurements say of a difference: two models' of the same
// canaries.
type Pairing struct {
	// Pairs there are, of which More have the greater value in the first of the two models, and
	// Fewer in the second. In the others the values are equal.
	Pairs int `json:"pairs"`
	More  int `json:"more"`
	Fewer int `json:"fewer"`
	// P is that of the exact sign test: were either as likely, More and Fewer were as
	// unequal or more. It takes pairs for independent.
	P float64 `json:"p"`
	// Difference of the mean of the first model and that of the second, seed by seed, with the
	// interval over seeds.
	Difference *Estimate `json:"difference"`
}

// add takes in the pairs of one seed: of each the first model's value less the second's.
func (p *Pairing) add(differences []float64) {
	p.Pairs += len(differences)
	for _, d := range differences {
		switch {
		case d > 0:
			p.More++
		case d < 0:
			p.Fewer++
		}
	}
}

// NewPairing is that of pairs by seed: of each the first model's value less the second's. Seeds
// without pairs don't count; nil without any pair.
func NewPairing(seeds [][]float64) *Pairing {
	var p Pairing
	var means []float64
	for _, differences := range seeds {
		if len(differences) > 0 {
			p.add(differences)
			means = append(means, stat.Mean(differences, nil))
		}
	}
	if p.Pairs == 0 {
		return nil
	}
	p.P, p.Difference = SignTest(p.More, p.Fewer), NewEstimate(means)
	return &p
}

// SignTest is the probability that so many independent signs are split as unequally as this
// or more, were both signs as likely: twice the tail of a binomial distribution, at most 1.
func SignTest(more, fewer int) float64 {
	return min(1, 2*NewShare(max(more, fewer), more+fewer).AtLeast(0.5))
}
