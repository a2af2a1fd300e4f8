package correlated

import (
	"cmp"
	"fmt"

	"coalmine/internal/lists"
)

// A Toeplitz strategy is given by the first column c of C, with c[0] = 1: element (t, i) of C is
// c[t-i].

// checkColumn returns an error unless the column is nonnegative and nonincreasing. For these
// columns, participations that are as early and as close as possible have the largest sensitivity.
func checkColumn(c []float64) error {
	if len(c) == 0 || c[0] != 1 {
		return fmt.Errorf("coefficients %v: expected the first to be 1", c)
	}
	for i := 1; i < len(c); i++ {
		if !(c[i] >= 0 && c[i] <= c[i-1]) {
			return fmt.Errorf("coefficient %d is %v after %v: expected none below 0, and none above the one before", i, c[i], c[i-1])
		}
	}
	return nil
}

// response returns the contribution of a user who takes part as early and as often as
// possible to the rows of C X, in clip norms: the sum of the columns 0, b, 2b, ... of C. Element t
// is the sum of c[t - jb] over participations j.
func response(c []float64, p Participation) []float64 {
	out := append([]float64(nil), c...)
	for t := p.Separation; t < len(out); t++ {
		out[t] += out[t-p.Separation]
	}
	reach := p.times() * p.Separation
	for t := len(out) - 1; t >= reach; t-- {
		out[t] -= out[t-reach]
	}
	return out
}

func squaredNorm(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v * v)
	}
	return sum
}

// squaredSensitivity returns the squared sensitivity of a column accepted by checkColumn (Kalinin
// and Lampert 2024, Banded Square Root Matrix Factorization for Differentially Private Model
// Training, Theorem 2).
func squaredSensitivity(c []float64, p Participation) float64 { return squaredNorm(response(c, p)) }

func sensitivityOf(s Strategy, column func(rounds int) []float64, p Participation) (float64, error) {
	if err := cmp.Or(s.Validate(), p.Validate()); err != nil {
		return 0, err
	}
	return squaredSensitivity(column(p.Rounds), p), nil
}

// sensitivityGradient returns the derivative of squaredSensitivity by every element of c.
func sensitivityGradient(c []float64, p Participation) []float64 {
	s := response(c, p)
	// The adjoint of response: the sum of s[i + jb] over participations j.
	out := append([]float64(nil), s...)
	for i := len(out) - 1 - p.Separation; i >= 0; i-- {
		out[i] += out[i+p.Separation]
	}
	reach := p.times() * p.Separation
	for i := 0; i+reach < len(out); i++ {
		out[i] -= out[i+reach]
	}
	for i := range out {
		out[i] *= 2
	}
	return out
}

// solver applies C^-1 to a sequence, element after element.
type solver interface {
	next(z float64) float64
}

// ones applies C^-1 to a vector of ones, one per round: element t is the sum of the first t+1
// elements of the first column of C^-1, so its squares add up to the variances of prefix sums.
func ones(s solver, rounds int) []float64 {
	return lists.Make(rounds, func(int) float64 { return s.next(1) })
}

// variances returns the variances of prefix sums; the last is the largest.
func variances(s solver, rounds int) []float64 {
	out, sum := ones(s, rounds), 0.0
	for t, v := range out {
		sum += float64(v * v)
		out[t] = sum
	}
	return out
}
