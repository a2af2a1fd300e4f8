// These files have the members that an audit sends into a training: users with a vector of the
// audit as their update, or records with one as their gradient (Andrew et al. 2024, algorithm 2).
// They are sampled, clipped, noised and counted like other members.
//
//	Clients     the members, for the task that trains
//	Directions  the vectors of a one-shot audit, computed from the seed and stored nowhere
//	Blocks      those of a one-run audit, likewise
//	Watch       statistics of the releases, updated after each round

package canaries

import (
	"fmt"

	"coalmine/privacy"
	"coalmine/tasks"
)

// Over is the value of Clients.Over in audits: large enough to detect a training that clips too late or too
// little.
const Over = 10

// Clients are the last Count users of a population or, in central training, the last Count records.
type Clients struct {
	Count int `json:"count"`
	// Norm is the L2 norm of their updates without a clip.
	Norm float64 `json:"norm,omitempty"`
	// Over is the norm of their updates in units of the clip, above 1, if there is a clip: the
	// audit covers the clipping, which applies to them too.
	Over float64 `json:"over,omitempty"`
	// Coins, if set, determines the contribution of a canary with tails: the opposite of its vector
	// with privacy.ReplaceOne, otherwise none. The vectors are then Blocks.
	Coins privacy.Neighbouring `json:"coins,omitempty"`
}

// Canary returns the number of a user's canary, from 0, or false if the user is not one of these
// clients. A nil Clients has none.
func (c *Clients) Canary(user, population int) (canary int, ok bool) {
	if c == nil {
		return 0, false
	}
	canary = user - (population - c.Count)
	return canary, canary >= 0
}

// Length returns the L2 norm of an update before the clip; clip 0 means no clip.
func (c *Clients) Length(clip float64) (float64, error) {
	switch {
	case clip > 0 && c.Over > 1:
		return c.Over * clip, nil
	case clip == 0 && c.Norm > 0:
		return c.Norm, nil
	}
	return 0, tasks.Permanent(fmt.Errorf("updates of %d canary clients are %v clip norms of %v long, or %v without a clip; expected more than 1 of them, or a norm above 0",
		c.Count, c.Over, clip, c.Norm))
}
