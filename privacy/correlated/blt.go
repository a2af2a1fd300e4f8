package correlated

import (
	"fmt"
	"math"
)

// BLT is a buffered linear Toeplitz strategy. Element 0 of its column is 1, and element i the sum
// over buffers j of Scales[j] x Decays[j]^(i-1). Noise keeps one buffer of the model's size per
// scale.
type BLT struct {
	// Scales are 0 or above, with a sum of at most 1, so that the column never increases.
	Scales []float64 `json:"scales"`
	// Decays are from 0 to 1.
	Decays []float64 `json:"decays"`
}

var _ Strategy = BLT{}

// Validate reports the first field that is out of range.
func (b BLT) Validate() error {
	if len(b.Scales) != len(b.Decays) || len(b.Scales) == 0 {
		return fmt.Errorf("blt: %d scales and %d decays: expected one of each for every buffer, and a buffer at least", len(b.Scales), len(b.Decays))
	}
	sum := 0.0
	for j := range b.Scales {
		if sum += b.Scales[j]; !(b.Scales[j] >= 0 && b.Decays[j] >= 0 && b.Decays[j] <= 1) {
			return fmt.Errorf("blt: buffer %d has scale %v and decay %v: expected a scale of 0 or above, and a decay from 0 to 1", j, b.Scales[j], b.Decays[j])
		}
	}
	if !(sum <= 1) {
		return fmt.Errorf("blt: the scales add up to %v: expected 1 at most", sum)
	}
	return nil
}

// Column returns the first column of C for a number of rounds.
func (b BLT) Column(rounds int) []float64 {
	c := make([]float64, rounds)
	c[0] = 1
	power := append([]float64(nil), b.Scales...)
	for i := 1; i < rounds; i++ {
		for j := range power {
			c[i] += power[j]
			power[j] *= b.Decays[j]
		}
	}
	return c
}

// SquaredSensitivity implements Strategy.
func (b BLT) SquaredSensitivity(p Participation) (float64, error) {
	return sensitivityOf(b, b.Column, p)
}

// Errors implements Strategy.
func (b BLT) Errors(rounds int) []float64 { return variances(b.solver(), rounds) }

// Buffers implements Strategy.
func (b BLT) Buffers(int) int { return len(b.Scales) }

// Noise implements Strategy: McMahan et al. 2024, algorithm 3.
func (b BLT) Noise(round int, buffers [][]float32, independent Independent) ([]float64, [][]float32, error) {
	noise, err := independent(0)
	if err != nil {
		return nil, nil, err
	}
	if round == 1 {
		buffers = zeros(len(b.Scales), len(noise))
	}
	if err := checkBuffers(round, buffers, len(b.Scales), len(noise)); err != nil {
		return nil, nil, err
	}
	next := zeros(len(b.Scales), len(noise))
	for from := 0; from < len(noise); from += nearby {
		b.filter(noise, buffers, next, from, min(from+nearby, len(noise)))
	}
	return noise, next, nil
}

// nearby is the number of elements processed at a time, few enough for the core's cache.
const nearby = 1024

// filter turns independent noise into the round's noise, in place, and computes the next buffers.
func (b BLT) filter(noise []float64, buffers, next [][]float32, from, to int) {
	noise = noise[from:to]
	for j, scale := range b.Scales {
		for i, v := range buffers[j][from:to] {
			noise[i] -= float64(scale * float64(v))
		}
	}
	for j, decay := range b.Decays {
		out := next[j][from:to]
		for i, v := range buffers[j][from:to] {
			out[i] = float32(float64(decay*float64(v)) + noise[i])
		}
	}
}

func (b BLT) solver() solver { return &bltSolver{b, make([]float64, len(b.Scales))} }

// bltSolver is Noise for a single element, in float64.
type bltSolver struct {
	BLT
	buffers []float64
}

func (s *bltSolver) next(z float64) float64 {
	for j, v := range s.buffers {
		z -= float64(s.Scales[j] * v)
	}
	for j, v := range s.buffers {
		s.buffers[j] = float64(s.Decays[j]*v) + z
	}
	return z
}

// slopes holds a value and its derivatives by scales and by decays.
type slopes struct {
	value            float64
	byScale, byDecay []float64
}

func (b BLT) slopes(value float64) slopes {
	return slopes{value, make([]float64, len(b.Scales)), make([]float64, len(b.Scales))}
}

// varianceSlopes differentiates through C^-1: x = C^-1 1 gives dx = -C^-1 dC x, which is
// -dC applied to C^-1 x.
func (b BLT) varianceSlopes(rounds int) slopes {
	x, inverse := ones(b.solver(), rounds), b.solver()
	s := b.slopes(squaredNorm(x))
	moved := b.slopes(0) // C^-1 x so far, through the derivatives of the column
	for _, v := range x {
		for j, scale := range b.Scales {
			s.byScale[j] -= float64(2 * v * moved.byScale[j])
			s.byDecay[j] -= float64(2 * v * float64(scale*moved.byDecay[j]))
		}
		y := inverse.next(v)
		for j, decay := range b.Decays {
			moved.byDecay[j] = float64(decay*moved.byDecay[j]) + moved.byScale[j]
			moved.byScale[j] = float64(decay*moved.byScale[j]) + y
		}
	}
	return s
}

func (b BLT) sensitivitySlopes(p Participation) slopes {
	column := b.Column(p.Rounds)
	s, byColumn := b.slopes(squaredSensitivity(column, p)), sensitivityGradient(column, p)
	for j, decay := range b.Decays {
		power, slope := 1.0, 0.0 // decay^(i-1), and its derivative
		for _, v := range byColumn[1:] {
			s.byScale[j] += float64(v * power)
			s.byDecay[j] += float64(float64(v*slope) * b.Scales[j])
			slope = float64(slope*decay) + power
			power *= decay
		}
	}
	return s
}

// startBLT returns the start of the search with a number of buffers: decays from slow, over all
// rounds, to fast, over a few.
func startBLT(rounds, buffers int) BLT {
	b := BLT{Scales: make([]float64, buffers), Decays: make([]float64, buffers)}
	sum := 0.0
	for j := range buffers {
		forgets := 0.5 * powerOf2(log2(3/float64(rounds+3))*float64(buffers-j)/float64(buffers))
		b.Decays[j] = 1 - forgets
		b.Scales[j] = math.Sqrt(forgets)
		sum += b.Scales[j]
	}
	for j := range b.Scales {
		b.Scales[j] *= 0.4 / sum
	}
	return b
}
