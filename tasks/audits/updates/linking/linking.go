// Package linking follows devices through a federation without knowing anything of them: it
// tells by the updates alone which come from one device.
//
//	audits/linking  pairs of anonymous updates, ranked by their similarity; the next
//	                update of a device; clusters of all updates
//
// The similarity of two updates is the cosine of their differences from the mean of the anonymous
// updates of their round, over the recorded layers, each update having length 1 first. The mean is
// common to all at that stage of the training.
package linking

import (
	"context"
	"fmt"

	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/pairs"
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
var Kind = tasks.Kind{Name: "audits/linking", Version: 2, Class: tasks.Compute, Run: audits.Measuring(link)}

func link(ctx context.Context, t *tasks.Task, p *Params) (*Outcome, error) {
	r, err := p.Open(ctx, t)
	if err != nil {
		return nil, err
	}
	c := collection{reader: r}
	if err := c.choose(ctx, p.Seed, p.Updates); err != nil {
		return nil, err
	}
	similarities, err := c.similarities(ctx, t)
	if err != nil {
		return nil, err
	}
	v := &Outcome{Devices: len(c.chosen), Updates: len(c.updates), All: c.all}
	if v.Pairs, err = p.measure(&c, similarities); err != nil {
		return nil, err
	}
	v.Next = next(c.updates, similarities)
	v.Clusters = compare(c.updates, cluster(c.updates, similarities, len(c.chosen)))
	return v, nil
}

// measure ranks pairs of updates by their similarity.
func (p *Params) measure(c *collection, similarities *square) (pairs.Measurement, error) {
	updates := &pairs.Side{Of: c.updates}
	drawn, err := pairs.Draw(updates, updates, p.Pairs, seeds.Stream(p.Seed, seeds.UpdatePairs, linkedPairs))
	if err != nil {
		return pairs.Measurement{}, tasks.Permanent(fmt.Errorf("anonymous updates: %w", err))
	}
	return pairs.Measure(drawn.Pairs(func(a, b int) float64 { return float64(similarities.at(a, b)) }), p.Seed, linkedPairs)
}

// linkedPairs is the number of this audit's pairs among those of one experiment.
const linkedPairs = 0

// next finds, for each update of a device that was seen before, the most similar of all earlier
// updates, of equal ones the first, and counts those of the same device.
func next(list []pairs.Update, similarities *square) Next {
	n := Next{}
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
			n.Of++
			n.Chance += float64(own) / float64(earlier)
			if list[best].User == u.User {
				n.Followed++
			}
		}
	}
	if n.Of > 0 {
		n.Share, n.Chance = float64(n.Followed)/float64(n.Of), n.Chance/float64(n.Of)
	}
	return n
}
