package correlated

import (
	"fmt"
)

// Participation is when a user may take part in a training.
type Participation struct {
	// Rounds of the training, 1 or more.
	Rounds int `json:"rounds"`
	// Separation is the least difference between the numbers of two rounds with the same
	// user, 1 or more; 1 allows every round. Choquette-Choo et al. 2023 call it b.
	Separation int `json:"separation"`
	// Times is how often a user takes part at most, 1 or more: k of the same paper.
	Times int `json:"participations"`
}

// Most is how often the separation lets a user take part in so many rounds.
func Most(rounds, separation int) int { return (rounds-1)/separation + 1 }

// Validate reports the first field that is out of range.
func (p Participation) Validate() error {
	switch {
	case p.Rounds < 1:
		return fmt.Errorf("correlated noise over %d rounds: expected at least 1", p.Rounds)
	case p.Separation < 1:
		return fmt.Errorf("%d rounds between participations: expected at least 1, which is every round", p.Separation)
	case p.Times < 1:
		return fmt.Errorf("%d participations: expected at least 1", p.Times)
	}
	return nil
}

// times is how often a user takes part at most, in fact.
func (p Participation) times() int { return min(p.Times, Most(p.Rounds, p.Separation)) }

// Strategy is the matrix C. Its values are relative: with independent noise of standard
// deviation 1.
type Strategy interface {
	// Validate reports why the strategy is none.
	Validate() error
	// SquaredSensitivity is the largest squared L2 norm of what one user adds to C X, in
	// clip norms, with updates of the clip norm: that of the first p.Rounds rounds.
	SquaredSensitivity(p Participation) (float64, error)
	// Errors are the variances of the noise on the sum of the first 1, 2, ... rounds
	// updates.
	Errors(rounds int) []float64
	// Noise is the noise of a round, counted from 1, on its update, in standard deviations,
	// and the buffers that the next round asks for. Buffers are those of the round before,
	// whose values it leaves as they are; there are none before the first round. Independent gives
	// it independent normal draws, as many as the model has parameters, in streams that are
	// numbered from 0.
	Noise(round int, buffers [][]float32, independent Independent) (noise []float64, next [][]float32, err error)
	// Buffers is the largest number of buffers between rounds of so many.
	Buffers(rounds int) int
}

// Independent draws independent normal noise for a round, from one of its streams.
type Independent func(stream uint64) ([]float64, error)

// errBuffers says that the buffers are not those of the round before.
func errBuffers(round, got, want int) error {
	return fmt.Errorf("the noise of round %d follows from %d buffers, and %d are there: expected the checkpoint of round %d of the same training",
		round, want, got, round-1)
}

// checkBuffers reports buffers that are not of the model's size, or not as many as expected.
func checkBuffers(round int, buffers [][]float32, want, size int) error {
	if len(buffers) != want {
		return errBuffers(round, len(buffers), want)
	}
	for _, b := range buffers {
		if len(b) != size {
			return fmt.Errorf("a buffer of the noise of round %d has %d elements: expected %d, as the model has", round, len(b), size)
		}
	}
	return nil
}

// zeros are so many buffers of a size.
func zeros(buffers, size int) [][]float32 {
	out := make([][]float32, buffers)
	for i := range out {
		out[i] = make([]float32, size)
	}
	return out
}
