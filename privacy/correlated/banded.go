package correlated

import "fmt"

// Banded is a banded Toeplitz strategy, given by the first elements of its column; the others are
// 0. The first is 1, and they are nonnegative and nonincreasing. Noise keeps len(Coefficients)-1
// buffers of the model's size.
type Banded struct {
	Coefficients []float64 `json:"coefficients"`
}

var _ Strategy = Banded{}

// Validate reports the first coefficient that is out of range.
func (b Banded) Validate() error {
	if err := checkColumn(b.Coefficients); err != nil {
		return fmt.Errorf("banded: %w", err)
	}
	return nil
}

func (b Banded) column(rounds int) []float64 {
	c := make([]float64, rounds)
	copy(c, b.Coefficients)
	return c
}

// SquaredSensitivity implements Strategy.
func (b Banded) SquaredSensitivity(p Participation) (float64, error) {
	return sensitivityOf(b, b.column, p)
}

// Errors implements Strategy.
func (b Banded) Errors(rounds int) []float64 { return variances(b.solver(), rounds) }

// Buffers implements Strategy.
func (b Banded) Buffers(rounds int) int { return min(len(b.Coefficients)-1, rounds) }

// Noise implements Strategy: Choquette-Choo et al. 2023, algorithm 9. The buffers hold the noise of
// the previous rounds, latest first.
func (b Banded) Noise(round int, buffers [][]float32, independent Independent) ([]float64, [][]float32, error) {
	noise, err := independent(0)
	if err != nil {
		return nil, nil, err
	}
	most := len(b.Coefficients) - 1
	if err := checkBuffers(round, buffers, min(round-1, most), len(noise)); err != nil {
		return nil, nil, err
	}
	for j, buffer := range buffers {
		for i, v := range buffer {
			noise[i] -= float64(b.Coefficients[j+1] * float64(v))
		}
	}
	last := make([]float32, len(noise))
	for i, v := range noise {
		last[i] = float32(v)
	}
	next := append([][]float32{last}, buffers...)
	return noise, next[:min(round, most)], nil
}

func (b Banded) solver() solver {
	return &bandedSolver{b.Coefficients, make([]float64, len(b.Coefficients)-1)}
}

// bandedSolver is Noise for a single element, in float64.
type bandedSolver struct {
	c    []float64
	past []float64 // latest first
}

func (s *bandedSolver) next(z float64) float64 {
	for j, v := range s.past {
		z -= float64(s.c[j+1] * v)
	}
	if len(s.past) > 0 {
		copy(s.past[1:], s.past)
		s.past[0] = z
	}
	return z
}

// variance returns the largest variance of a prefix sum and its derivative by each
// coefficient: x = C^-1 1 gives dx = -dC applied to C^-1 x.
func (b Banded) variance(rounds int) (value float64, byCoefficient []float64) {
	x, inverse := ones(b.solver(), rounds), b.solver()
	y := make([]float64, rounds)
	for t, v := range x {
		y[t] = inverse.next(v)
	}
	byCoefficient = make([]float64, len(b.Coefficients))
	for i := range byCoefficient {
		for t := i; t < rounds; t++ {
			byCoefficient[i] -= float64(2 * x[t] * y[t-i])
		}
	}
	return squaredNorm(x), byCoefficient
}

// startBanded returns the start of the search: the square root of the matrix of prefix sums, the
// best Toeplitz strategy for one participation if bands are unlimited (Fichtenberger, Henzinger and
// Upadhyay 2023).
func startBanded(bands int) Banded {
	b := Banded{Coefficients: make([]float64, bands)}
	b.Coefficients[0] = 1
	for i := 1; i < bands; i++ {
		b.Coefficients[i] = b.Coefficients[i-1] * (1 - 0.5/float64(i))
	}
	return b
}
