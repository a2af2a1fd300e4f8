// Package linking follows devices through a federation without knowing anything of them: it
// tells by the updates alone which come from one device.
//
//	audits/linking  pairs of anonymous updates, ranked by their similarity; the next
//	                update of a device; clusters of all updates
//
// The similarity of two updates is the cosine of what they differ by from the mean of the
// anonymous updates of their round, over the recorded layers, each update having length 1
// first. The mean is what all have in common at that stage of the training.
package linking

import (
	"context"
	"fmt"

	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/sameuser"
)

// Params are the parameters of audits/linking.
type Params struct {
	Seed uint64 `json:"seed"`
	observed.View
	// Updates is how many updates are looked at, at most: those of devices drawn at random.
	Updates int `json:"updates"`
	// Pairs is how many pairs are drawn to measure AP and AUC.
	Pairs int `json:"pairs"`
}

// Kind links recorded updates. Its inputs are those of observed.Inputs, its metrics a
// Outcome. Memory is 4 bytes for each pair of updates, and matrixBytes.
var Kind = tasks.Kind{Name: "audits/linking", Version: 2, Class: tasks.Compute, Run: run}

func run(ctx context.Context, t *tasks.Task) error {
	var p Params
	if err := t.Decode(&p); err != nil {
		return err
	}
	r, err := p.Open(ctx, t)
	if err != nil {
		return err
	}
	c := collection{reader: r}
	if err := c.choose(ctx, p.Seed, p.Updates); err != nil {
		return err
	}
	similarities, err := c.similarities(ctx, t)
	if err != nil {
		return err
	}
	v := Outcome{Devices: c.devices, Updates: len(c.updates), All: c.all}
	if v.Pairs, err = p.measure(&c, similarities); err != nil {
		return err
	}
	v.Next = next(c.updates, similarities)
	v.Clusters = compare(c.updates, cluster(c.updates, similarities, c.devices))
	return t.SetMetrics(v)
}

// measure ranks pairs of updates by their similarity.
func (p *Params) measure(c *collection, similarities *square) (sameuser.Measurement, error) {
	drawn, err := sameuser.Draw(c.updates, c.updates, p.Pairs, seeds.Stream(p.Seed, seeds.UpdatePairs, linkedPairs))
	if err != nil {
		return sameuser.Measurement{}, tasks.Permanent(fmt.Errorf("anonymous updates: %w", err))
	}
	pairs := make([]sameuser.Pair, len(drawn))
	for i, d := range drawn {
		pairs[i] = sameuser.Pair{A: c.updates[d.A].User, B: c.updates[d.B].User, Score: float64(similarities.at(d.A, d.B))}
	}
	return sameuser.Measure(pairs, p.Seed, linkedPairs)
}

// linkedPairs is the number of this audit's pairs among those of one experiment.
const linkedPairs = 0

// next follows devices from one of their updates to the one before it: for each update
// of a device that was seen before, whether the most similar of all earlier updates is its
// own. Of equal ones the first counts.
func next(list []sameuser.Update, similarities *square) Next {
	n := Next{}
	chance := 0.0
	for i, u := range list {
		best, own, earlier := -1, 0, 0
		for j := range list[:i] {
			if list[j].Round >= u.Round {
				break // they are in the order of rounds
			}
			earlier++
			if list[j].User == u.User {
				own++
			}
			if best < 0 || similarities.at(i, j) > similarities.at(i, best) {
				best = j
			}
		}
		if own > 0 {
			n.add(list[best].User == u.User)
			chance += float64(own) / float64(earlier)
		}
	}
	return n.done(chance)
}
