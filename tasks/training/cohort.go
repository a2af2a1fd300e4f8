package training

import (
	"fmt"
	"math/rand/v2"

	"coalmine/internal/readable"
	"coalmine/privacy"
	"coalmine/tasks"
)

// Cohort returns the users of a round in ascending order. It depends only on the rounds' streams
// and the size of the population, never on the data. It is an error if the sampling cannot be drawn
// or the cohort is larger than the population.
func Cohort(p *ClientsParams, round, population int, stream func(round int) (*rand.Rand, error)) ([]int, error) {
	sampling := p.Sampling
	switch p.Control {
	case privacy.PoissonAccounted:
		sampling = privacy.Shuffled
	case privacy.SameCohort:
		round = 1
	case privacy.NoNoise, privacy.ClipPerBatch, privacy.DoubleSensitivity:
	}
	scheme, err := drawnScheme(sampling)
	if err != nil {
		return nil, err
	}
	if p.Cohort > population {
		return nil, tasks.Permanent(fmt.Errorf(
			"the cohort of %d is above the population of %s: lower training.cohort or data.users.words", p.Cohort, readable.Count(population, "user")))
	}
	return scheme.Draw(privacy.Round{
		Number: round, Population: population, Cohort: p.Cohort,
		Separation: p.Separation, Participations: p.Participations, Stream: stream,
	})
}

// drawnScheme returns the entry of a sampling that a training can run.
func drawnScheme(sampling privacy.Sampling) (privacy.Scheme, error) {
	scheme, err := privacy.FindScheme(sampling)
	if err == nil && !scheme.Drawn() {
		err = fmt.Errorf("sampling %q is for accounting: no cohort can be drawn by it", sampling)
	}
	return scheme, tasks.Permanent(err)
}

// chunk returns part j of n of the cohort: consecutive users, in parts of nearly equal size.
func chunk(users []int, j, n int) []int {
	return users[j*len(users)/n : (j+1)*len(users)/n]
}
