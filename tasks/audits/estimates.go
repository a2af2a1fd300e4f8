package audits

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
)

// Estimate summarizes measurements of one number, such as those of several seeds.
type Estimate struct {
	// N is the number of values. Mean is infinite if one of them is.
	N    int           `json:"n" doc:"number of values"`
	Mean numbers.Float `json:"mean" doc:"mean"`
	// SD is the sample standard deviation; nil for one value.
	SD *float64 `json:"sd" doc:"sample standard deviation"`
	// Low and High are the interval of Student's t with N - 1 degrees of freedom, which has coverage
	// Confidence for normal measurements. They are nil for one value, and for equal ones, which do not show a
	// spread of 0. Means of counts have the interval of Pool.
	Low  *float64 `json:"low" doc:"lower end of the 95% interval by Student's t, not cut at 0"`
	High *float64 `json:"high" doc:"upper end of the 95% interval by Student's t, not cut at 1"`
	// Infinite reports whether the mean, the deviation or an end is beyond float64, and null.
	Infinite bool `json:"infinite,omitempty"`
}

// NewEstimate returns the estimate of values that are finite or +Inf; nil without values.
func NewEstimate(values []float64) *Estimate {
	n := len(values)
	if n == 0 {
		return nil
	}
	e := &Estimate{N: n, Mean: numbers.Float(values[0])}
	switch {
	case math.IsInf(slices.Max(values), 1):
		e.Mean, e.Infinite = numbers.Float(math.Inf(1)), true
	case n == 1:
	case slices.Min(values) == slices.Max(values):
		e.SD = new(0.0)
	default:
		mean, sd := meanStdDev(values)
		half := StudentT(n-1) * sd / math.Sqrt(float64(n))
		e.Mean, e.SD, e.Low, e.High = numbers.Float(mean), numbers.Finite(sd), numbers.Finite(mean-half), numbers.Finite(mean+half)
		e.Infinite = e.SD == nil || e.Low == nil || e.High == nil
	}
	return e
}

// Clip clips the interval to the range of possible values, such as [0, 1].
func (e *Estimate) Clip(least, most float64) {
	for _, end := range []*float64{e.Low, e.High} {
		if end != nil {
			*end = min(max(*end, least), most)
		}
	}
}

// Pool sets the interval of a mean of counts to that of their pooled share, in counts of a group of the mean
// size: for small counts, Student's interval is too narrow. One group gives no interval.
func (e *Estimate) Pool(s Share) {
	if e.N > 1 && s.Of > 0 {
		size := float64(s.Of) / float64(e.N)
		e.Low, e.High = new(s.Low*size), new(s.High*size)
	}
}

// meanStdDev is stat.MeanStdDev without overflow.
func meanStdDev(values []float64) (mean, sd float64) {
	mean, sd = stat.MeanStdDev(values, nil)
	if numbers.Finite(mean) != nil && numbers.Finite(sd) != nil {
		return mean, sd
	}
	_, exponent := math.Frexp(max(slices.Max(values), -slices.Min(values)))
	mean, sd = stat.MeanStdDev(lists.Map(values, func(v float64) float64 { return math.Ldexp(v, -exponent) }), nil)
	return math.Ldexp(mean, exponent), math.Ldexp(sd, exponent)
}

// StudentT returns the half-width of the interval with coverage Confidence, in standard errors.
func StudentT(degrees int) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: float64(degrees)}.Quantile(1 - (1-Confidence)/2)
}
