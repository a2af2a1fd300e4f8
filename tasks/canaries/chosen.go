package canaries

import (
	"fmt"
	"math/rand/v2"

	"coalmine/internal/seeds"
	"coalmine/tasks/datasets/population"
)

// choosePlaces draws the places of the canaries with a chosen number of insertions, one canary
// after the other, and counts the users of each in list. No place is drawn twice.
func choosePlaces(seed uint64, list []population.Placement, index *population.Index) (population.Overlay, error) {
	examples := index.Counts().Examples
	wanted := 0
	for _, c := range list {
		wanted += c.InsertedTimes
	}
	if wanted > examples {
		return nil, fmt.Errorf("canaries are inserted %d times in all, and the balanced users have %d examples; lower canaries.insertions or canaries.per_configuration", wanted, examples)
	}
	var chosen population.Overlay
	taken := map[int]bool{}
	for i := range list {
		c, users := &list[i], map[int]bool{}
		rng := seeds.Stream(seed, seeds.Insertions, uint64(c.Number))
		for range c.InsertedTimes {
			user, example := index.Find(drawFree(rng, examples, taken))
			chosen = append(chosen, population.Replacement{User: user, Example: example, Canary: c.Number})
			users[user] = true
		}
		c.Users += len(users)
	}
	return chosen, nil
}

// drawFree draws one of n examples that is not taken, and takes it.
func drawFree(rng *rand.Rand, n int, taken map[int]bool) int {
	for {
		if at := rng.IntN(n); !taken[at] {
			taken[at] = true
			return at
		}
	}
}
