package canaries

import (
	"fmt"
	"math/rand/v2"
	"sort"

	"coalmine/internal/seeds"
	"coalmine/tasks/datasets"
)

// choosePlaces draws the places of the canaries with a chosen number of insertions, one canary
// after the other, and counts the users of each in list. No place is drawn twice.
func choosePlaces(seed uint64, list []datasets.Placement, index *datasets.Index) (datasets.Overlay, error) {
	examples := newExamples(index)
	wanted := 0
	for _, c := range list {
		wanted += c.InsertedTimes
	}
	if wanted > examples.count() {
		return nil, fmt.Errorf("canaries are inserted %d times in all, and the balanced users have %d examples; lower canaries.insertions or canaries.per_configuration", wanted, examples.count())
	}
	var chosen datasets.Overlay
	taken := map[int]bool{}
	for i := range list {
		c, users := &list[i], map[int]bool{}
		rng := seeds.Stream(seed, seeds.Insertions, uint64(c.Number))
		for range c.InsertedTimes {
			user, example := examples.at(drawFree(rng, examples.count(), taken))
			chosen = append(chosen, datasets.Replacement{User: user, Example: example, Canary: c.Number})
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

// examples numbers the examples of all users in order.
type examples struct{ ends []int } // by user: number of examples up to and including the user's

func newExamples(index *datasets.Index) examples {
	x, sum := examples{}, 0
	for _, user := range index.Extents {
		sum += user.Examples
		x.ends = append(x.ends, sum)
	}
	return x
}

func (x examples) count() int {
	if len(x.ends) == 0 {
		return 0
	}
	return x.ends[len(x.ends)-1]
}

// at returns the user of an example, and its number within the user.
func (x examples) at(number int) (user, example int) {
	user = sort.Search(len(x.ends), func(u int) bool { return x.ends[u] > number })
	if user > 0 {
		number -= x.ends[user-1]
	}
	return user, number
}
