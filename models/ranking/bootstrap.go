package ranking

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Interval is where a number lies with some confidence.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Resampling draws users anew (Efron and Tibshirani 1993, section 13.3).
type Resampling struct {
	// Stream gives the numbers: below(Users), user after user.
	Stream *rand.Rand
	// Users is the number of users, and of those that each of the Resamples draws, with
	// replacement.
	Users, Resamples int
}

// Statistics are the values of a statistic for the resamples, ascending. Those that are NaN are
// left out.
func (r *Resampling) Statistics(statistic func(users []int) float64) []float64 {
	users := make([]int, r.Users)
	var drawn []float64
	for range r.Resamples {
		for i := range users {
			users[i] = r.Stream.IntN(r.Users)
		}
		if s := statistic(users); !math.IsNaN(s) {
			drawn = append(drawn, s)
		}
	}
	slices.Sort(drawn)
	return drawn
}

// Interval is the percentile interval of a statistic.
func (r *Resampling) Interval(confidence float64, statistic func(users []int) float64) Interval {
	return Percentile(r.Statistics(statistic), confidence)
}

// Bootstrap is the Interval of a statistic over n users, drawn anew from a stream.
func Bootstrap(rng *rand.Rand, n, resamples int, confidence float64, statistic func(users []int) float64) Interval {
	r := Resampling{Stream: rng, Users: n, Resamples: resamples}
	return r.Interval(confidence, statistic)
}

// Percentile is what is left of ascending values without (1-confidence)/2 of them on either
// side; zeros without values.
func Percentile(sorted []float64, confidence float64) Interval {
	tail := (1 - confidence) / 2
	return Interval{Quantile(sorted, tail), Quantile(sorted, 1-tail)}
}

// Quantile interpolates between the two nearest of ascending values, as NumPy's does by default.
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

// Mean of values, NaN without any.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
