package pld

import (
	"fmt"
	"math"
)

// query is a question to the composed distribution, and how finely to ask.
type query struct {
	steps []Step
	tilt  float64
	scale float64 // the epsilon that errors are measured against
	delta float64 // the delta that cut-off tails are measured against

	tolerance float64 // share of scale that discretization may cost
}

// Shares of scale and delta that discretization and cut-off tails may cost.
const (
	roughError = 1e-3
	stepError  = 1e-5
	tailError  = 1e-9
)

// maxCells limits the grid of one round.
const maxCells = 1 << 18

// answer is how a query is answered by the composed distribution: ok is false
// when the answer lies below the distribution's window.
type answer func(s sum, side bound) (value float64, ok bool)

// bounds answers the query from both sides, for the worse of adding and
// removing a member.
func (q query) bounds(answer answer) (Bounds, error) {
	var result Bounds
	for _, removing := range []bool{true, false} {
		upper, err := q.oneSided(removing, above, answer)
		if err != nil {
			return Bounds{}, err
		}
		lower, err := q.oneSided(removing, below, answer)
		if err != nil {
			return Bounds{}, err
		}
		result.Upper = math.Max(result.Upper, upper)
		result.Lower = math.Max(result.Lower, lower)
	}
	return result, nil
}

// oneSided answers the query from one side, for adding or removing a member.
func (q query) oneSided(removing bool, side bound, answer answer) (float64, error) {
	// A coarser grid shortens the window, a smaller tilt moves it to lower
	// losses. Neither is needed but in extreme corners.
	step := q.step(removing)
	for tilt, try := q.tilt, 0; try < 24; try++ {
		total, fits := compose(q.parts(removing, side, step), tilt)
		if !fits {
			step *= 2
			continue
		}
		if value, ok := answer(total, side); ok {
			return value, nil
		}
		tilt /= 4
	}
	return 0, fmt.Errorf("the privacy losses of these %d kinds of rounds are too widely spread for their distribution to be computed: "+
		"use Rényi differential privacy", len(q.steps))
}

// step returns the grid step. At tilt t, splitting cells raises the exponent of
// Chernoff's bound by about t(t+1)step^2/12 a round, so epsilon by
// (t+1)step^2/12. Besides, a step must resolve the least loss, which most of
// the mass is near to when few members are sampled.
func (q query) step(removing bool) float64 {
	rounds, width, least := 0.0, 0.0, math.Inf(1)
	for _, s := range q.steps {
		rounds += float64(s.Rounds)
		low, high := q.pair(s, removing).support(q.tailQuantile())
		width = math.Max(width, high-low)
		least = math.Min(least, -math.Log1p(-s.Rate))
	}
	step := math.Sqrt(12 * q.tolerance * q.scale / (rounds * (q.tilt + 1)))
	return math.Max(math.Min(step, least/4), width/maxCells)
}

// tailQuantile returns how many standard deviations of noise to keep, so that
// what is cut off over all rounds is a small share of delta.
func (q query) tailQuantile() float64 {
	rounds := 0.0
	for _, s := range q.steps {
		rounds += float64(s.Rounds)
	}
	return math.Sqrt(2 * math.Log(2*rounds/(tailError*math.Max(q.delta, 1e-300))))
}

func (q query) pair(s Step, removing bool) pair {
	return pair{rate: s.Rate, sigma: s.Sigma, removing: removing}
}

func (q query) parts(removing bool, side bound, step float64) []part {
	parts := make([]part, len(q.steps))
	z := q.tailQuantile()
	for i, s := range q.steps {
		d := q.pair(s, removing)
		parts[i].rounds = s.Rounds
		if side == above {
			parts[i].grid = d.fromAbove(step, z)
		} else {
			parts[i].grid = d.fromBelow(step, z)
		}
	}
	return parts
}
