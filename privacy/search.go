package privacy

import (
	"fmt"
	"math"
	"sort"
	"strconv"
)

// firstWithin returns the least n above over for which excess(n) is 0 or below. excess, such as the
// log of a cost over its limit, falls with n, is above 0 at over and 0 or below at within, and may be
// infinite. It is costly: the search interpolates linearly, and bisects if that does not help.
func firstWithin(over, within int, excess func(n int) float64) int {
	atOver, atWithin := math.Inf(1), math.Inf(-1)
	for turn := 0; within-over > 1; turn++ {
		n := over + (within-over)/2
		if share := atOver / (atOver - atWithin); turn%3 != 2 && share >= 0 && share <= 1 {
			guess := over + int(share*float64(within-over)) + turn%3 // on both sides of the crossing
			n = min(max(guess, over+1), within-1)
		}
		if e := excess(n); e <= 0 {
			within, atWithin = n, e
		} else {
			over, atOver = n, e
		}
	}
	return within
}

// logExcess returns the log of epsilon over the budget's epsilon.
func (b Budget) logExcess(epsilon float64) float64 { return math.Log(epsilon / b.Epsilon) }

// The noise multipliers of six significant digits are numbered upwards from MinNoise, so that a search
// over integers finds the least one that fits.
const (
	placesOfDecade = 900_000
	mantissas      = 100_000 // the first mantissa, in units of its last digit
)

// MinNoise and MinDelta are the ends of the searches for noise and delta.
var (
	MinNoise = noiseAt(0)
	MinDelta = deltaAt(0)
)

// noiseAt returns the noise multiplier with a number, 0 or above.
func noiseAt(place int) float64 {
	mantissa := float64(mantissas + place%placesOfDecade)
	decade := place/placesOfDecade + minDecade
	if power := decade - 5; power > 0 {
		return mantissa * math.Pow10(power)
	}
	return mantissa / math.Pow10(5-decade)
}

// Deltas of four significant digits, from 1e-200 to 0.9999, are numbered too.
const (
	deltasOfDecade = 9000
	minDeltaDecade = -200
	maxDeltaPlace  = -minDeltaDecade*deltasOfDecade - 1
)

// deltaAt returns the delta with a number, 0 to maxDeltaPlace.
func deltaAt(place int) float64 {
	mantissa, decade := place%deltasOfDecade+1000, place/deltasOfDecade+minDeltaDecade
	delta, _ := strconv.ParseFloat(fmt.Sprintf("%de%d", mantissa, decade-3), 64) // correctly rounded
	return delta
}

// deltaPlace returns the number of the least delta that is not below x, limited to the range.
func deltaPlace(x float64) int {
	return sort.Search(maxDeltaPlace, func(place int) bool { return deltaAt(place) >= x })
}
