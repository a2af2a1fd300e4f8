package training

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"coalmine/tasks"
)

// Ways to sample the cohort of a round.
const (
	// FixedSize draws exactly Cohort users, uniformly and without replacement
	// within the round (Augenstein et al. 2020, appendix; Thakkar et al. 2020,
	// algorithm 1).
	FixedSize = "fixed-size"
	// Poisson draws every user independently with probability Cohort/population
	// (McMahan et al. 2018); a round may then have any size, even none.
	Poisson = "poisson"
)

// Cohort returns the users of a round in ascending order. It depends on the
// round's stream and the size of the population, never on the data. A cohort
// larger than the population is an error.
func Cohort(p *ClientsParams, rng *rand.Rand, population int) ([]int, error) {
	if p.Cohort > population {
		return nil, tasks.Permanent(fmt.Errorf(
			"the cohort of %d is above the population of %d users: lower training.cohort or data.users.words", p.Cohort, population))
	}
	if p.Sampling == Poisson {
		return poissonSample(rng, population, float64(p.Cohort)/float64(population)), nil
	}
	return fixedSample(rng, population, p.Cohort), nil
}

// fixedSample is Floyd's algorithm: n of population, each subset equally likely,
// in memory proportional to n.
func fixedSample(rng *rand.Rand, population, n int) []int {
	drawn := make(map[int]bool, n)
	for top := population - n; top < population; top++ {
		user := rng.IntN(top + 1)
		if drawn[user] {
			user = top
		}
		drawn[user] = true
	}
	users := make([]int, 0, n)
	for user := range drawn {
		users = append(users, user)
	}
	slices.Sort(users)
	return users
}

func poissonSample(rng *rand.Rand, population int, rate float64) []int {
	var users []int
	for user := range population {
		if rng.Float64() < rate {
			users = append(users, user)
		}
	}
	return users
}

// chunk is part j of n of the cohort: consecutive users, sizes as equal as can be.
func chunk(users []int, j, n int) []int {
	return users[j*len(users)/n : (j+1)*len(users)/n]
}
