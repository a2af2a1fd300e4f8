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

// Bootstrap is the percentile interval of a statistic over n users (Efron and Tibshirani 1993,
// section 13.3): each resample draws n of them with replacement, and the interval leaves out
// (1-confidence)/2 of the resamples' statistics on either side. Numbers are drawn from rng as
// below(n), user after user. A statistic that is NaN for a resample leaves that out; the
// interval is NaN to NaN if there is none.
func Bootstrap(rng *rand.Rand, n, resamples int, confidence float64, statistic func(users []int) float64) Interval {
	users := make([]int, n)
	var drawn []float64
	for range resamples {
		for i := range users {
			users[i] = rng.IntN(n)
		}
		if s := statistic(users); !math.IsNaN(s) {
			drawn = append(drawn, s)
		}
	}
	if len(drawn) == 0 {
		return Interval{math.NaN(), math.NaN()}
	}
	slices.Sort(drawn)
	tail := (1 - confidence) / 2
	return Interval{quantile(drawn, tail), quantile(drawn, 1-tail)}
}

// quantile interpolates between the two nearest of sorted values, as NumPy's does by default.
func quantile(sorted []float64, q float64) float64 {
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
