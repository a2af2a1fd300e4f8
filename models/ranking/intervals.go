package ranking

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Interval contains a number with some confidence.
type Interval struct {
	Low  float64 `json:"low" doc:"lower end of the interval"`
	High float64 `json:"high" doc:"upper end of the interval"`
}

// Resampling assigns random weights to the users and to one more, unseen user: the Bayesian
// bootstrap (Rubin 1981) with an extreme value added to the data. The statistic with the worst
// possible unseen user gives the lower end of an interval, the statistic with the best possible
// one the upper end. For a mean of values in [0, 1] this is the bound of Gaffke 2005 and of
// Learned-Miller and Thomas 2020 (A new confidence interval for the mean of a bounded random
// variable), which holds for one or more users and for any distribution of the values; if every
// value is 0 or 1, it is the interval of Clopper and Pearson.
type Resampling struct {
	// Stream supplies the random numbers: -ln(1 - float64) for each resample, group and user,
	// including the unseen user; their shares of the group's sum are the weights.
	Stream *rand.Rand
	// Groups holds the number of users of each group; weights add up to 1 within a group.
	Groups    []int
	Resamples int
}

// Ends returns the lower and the upper ends of the resamples, each ascending. statistic gets the
// weights of each group, the unseen user's last; NaN values are left out.
func (r *Resampling) Ends(statistic func(weights [][]float64) (low, high float64)) (lows, highs []float64) {
	weights := make([][]float64, len(r.Groups))
	for i, n := range r.Groups {
		weights[i] = make([]float64, n+1)
	}
	for range r.Resamples {
		for _, w := range weights {
			r.draw(w)
		}
		low, high := statistic(weights)
		if !math.IsNaN(low) && !math.IsNaN(high) {
			lows, highs = append(lows, low), append(highs, high)
		}
	}
	slices.Sort(lows)
	slices.Sort(highs)
	return lows, highs
}

// draw sets weights to a uniform draw from the simplex.
func (r *Resampling) draw(weights []float64) {
	sum := 0.0
	for i := range weights {
		weights[i] = -math.Log(1 - r.Stream.Float64())
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
}

// Interval returns the interval of a statistic.
func (r *Resampling) Interval(confidence float64, statistic func(weights [][]float64) (low, high float64)) Interval {
	return PercentileInterval(confidence)(r.Ends(statistic))
}

// PercentileInterval returns a function that makes an interval of Ends, leaving out (1-confidence)/2 of the
// resamples on either side.
func PercentileInterval(confidence float64) func(lows, highs []float64) Interval {
	tail := (1 - confidence) / 2
	return func(lows, highs []float64) Interval { return Interval{Quantile(lows, tail), Quantile(highs, 1-tail)} }
}

// OfMean returns the statistic for the mean of values, between least and most, over the users of
// one group.
func OfMean(values []float64, least, most float64) func(weights [][]float64) (low, high float64) {
	return func(weights [][]float64) (low, high float64) {
		for i, v := range values {
			low += float64(weights[0][i] * (v - least))
			high += float64(weights[0][i] * (most - v))
		}
		return least + low, most - high
	}
}

// OfRatio returns the statistic for the ratio of two sums over the users of one group. Numbers of
// the first sum are between least and most; unseen is the second number of the unseen user.
func OfRatio(first, second []float64, least, most, unseen float64) func(weights [][]float64) (low, high float64) {
	above := OfMean(first, least, most)
	return func(weights [][]float64) (low, high float64) {
		low, high = above(weights)
		below := float64(weights[0][len(second)] * unseen)
		for i, v := range second {
			below += float64(weights[0][i] * v)
		}
		return low / below, high / below
	}
}

// Numbers returns an error for the first NaN value, because NaN has no rank. name is the name of a value.
func Numbers[F float32 | float64](name string, values []F) error {
	for i, v := range values {
		if math.IsNaN(float64(v)) {
			return fmt.Errorf("%s %d is NaN; expected a number, since only numbers have ranks", name, i)
		}
	}
	return nil
}

// Quantile interpolates between the two nearest of ascending values, as NumPy does by default.
// It is 0 without values.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := float64(q * float64(len(sorted)-1))
	below := int(math.Floor(at))
	if below >= len(sorted)-1 {
		return sorted[len(sorted)-1]
	}
	share := at - float64(below)
	return sorted[below] + float64(share*(sorted[below+1]-sorted[below]))
}

// Mean returns the mean of values, NaN without any.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
