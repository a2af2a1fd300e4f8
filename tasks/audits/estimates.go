package audits

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"coalmine/internal/extended"
)

// Estimate is what several measurements of one number say, such as those of trainings that
// differ in the seed alone.
type Estimate struct {
	// N is the number of values. Mean is their mean, infinite if one of them is.
	N    int            `json:"n"`
	Mean extended.Float `json:"mean"`
	// SD is the standard deviation of one measurement, with N - 1 in the divisor; nil of a
	// single one.
	SD *float64 `json:"sd"`
	// Low and High are the interval of Student's t with N - 1 degrees of freedom: where
	// measurements are normal, they contain what is measured in Confidence of the cases. Nil
	// of a single one, and where all are equal: counts may be, whose spread is not 0.
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	// Infinite says that the mean, the deviation or an end of the interval lies beyond the range
	// of float64, and is null.
	Infinite bool `json:"infinite,omitempty"`
}

// NewEstimate returns the estimate of values that are finite or +Inf; nil if there are none.
func NewEstimate(values []float64) *Estimate {
	n := len(values)
	if n == 0 {
		return nil
	}
	e := &Estimate{N: n, Mean: extended.Float(values[0])}
	switch {
	case math.IsInf(slices.Max(values), 1):
		e.Mean, e.Infinite = extended.Float(math.Inf(1)), true
	case n == 1:
	case slices.Min(values) == slices.Max(values):
		e.SD = new(0.0)
	default:
		mean, sd := meanStdDev(values)
		half := studentT(n-1) * sd / math.Sqrt(float64(n))
		e.Mean, e.SD, e.Low, e.High = extended.Float(mean), extended.Finite(sd), extended.Finite(mean-half), extended.Finite(mean+half)
		e.Infinite = e.SD == nil || e.Low == nil || e.High == nil
	}
	return e
}

// Clip cuts the interval off where the number cannot be, such as a share outside [0, 1].
func (e *Estimate) Clip(least, most float64) {
	for _, end := range []*float64{e.Low, e.High} {
		if end != nil {
			*end = min(max(*end, least), most)
		}
	}
}

// meanStdDev is like stat.MeanStdDev, also for values whose sum or squares exceed the range of
// float64.
func meanStdDev(values []float64) (mean, sd float64) {
	mean, sd = stat.MeanStdDev(values, nil)
	if extended.Finite(mean) != nil && extended.Finite(sd) != nil {
		return mean, sd
	}
	_, exponent := math.Frexp(max(slices.Max(values), -slices.Min(values)))
	scaled := make([]float64, len(values))
	for i, v := range values {
		scaled[i] = math.Ldexp(v, -exponent)
	}
	mean, sd = stat.MeanStdDev(scaled, nil)
	return math.Ldexp(mean, exponent), math.Ldexp(sd, exponent)
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
