package correlated

import (
	"fmt"

	"coalmine/internal/lists"
)

// Participation limits when a user may take part in a training.
type Participation struct {
	// Rounds of the training, 1 or more.
	Rounds int `json:"rounds"`
	// Separation is the least difference between the numbers of two rounds with the same user, 1 or
	// more; 1 allows every round (b in Choquette-Choo et al. 2023).
	Separation int `json:"separation"`
	// Times is the largest number of participations of a user, 1 or more (k in the same paper).
	Times int `json:"participations"`
}

// Most returns the largest number of participations that the separation allows
// in a number of rounds.
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

// times returns the effective largest number of participations.
func (p Participation) times() int { return min(p.Times, Most(p.Rounds, p.Separation)) }

// Strategy is the matrix C. Its values are relative: with independent noise of standard
// deviation 1.
type Strategy interface {
	// Validate returns an error if the strategy is invalid.
	Validate() error
	// SquaredSensitivity returns the largest squared L2 norm of one user's contribution to C X over
	// the first p.Rounds rounds, in clip norms, with updates of the clip norm.
	SquaredSensitivity(p Participation) (float64, error)
	// Errors returns the variances of the noise on the sum of the updates of the
	// first 1, 2, ... rounds.
	Errors(rounds int) []float64
	// Noise returns the noise of a round, counted from 1, on its update, in standard deviations,
	// and the buffers for the next round. It takes the buffers of the previous round, nil before
	// the first, and does not change them. independent supplies independent normal draws, as many
	// as the model has parameters, in streams numbered from 0.
	Noise(round int, buffers [][]float32, independent Independent) (noise []float64, next [][]float32, err error)
	// Buffers returns the largest number of buffers kept between the rounds of a training.
	Buffers(rounds int) int
}

// Independent draws independent normal noise for a round, from one of its streams.
type Independent func(stream uint64) ([]float64, error)

// errBuffers reports buffers that do not belong to the previous round.
func errBuffers(round, got, want int) error {
	return fmt.Errorf("the noise of round %d follows from %d buffers, and %d are there: expected the checkpoint of round %d of the same training",
		round, want, got, round-1)
}

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

func zeros(buffers, size int) [][]float32 {
	return lists.Make(buffers, func(int) []float32 { return make([]float32, size) })
}
