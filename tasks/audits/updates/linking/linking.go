// Package linking finds the updates of one device by their similarity.
//
//	audits/linking  ranks pairs of anonymous updates by their similarity, follows each device
//	                to its next update, and clusters all updates
//
// The similarity of two updates is the cosine of their differences from the mean of the anonymous
// updates of their round, over the recorded layers. Updates are scaled to length 1 first.
package linking

import (
	"context"
	"fmt"

	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/pairs"
)

type Params struct {
	Seed uint64 `json:"seed"`
	observed.View
	// Updates bounds the number of updates, which are those of devices drawn at random.
	Updates int `json:"updates"`
	// Pairs is the number of pairs drawn to measure AP and AUC.
	Pairs int `json:"pairs"`
}

// Kind links recorded updates. Its inputs are those of observed.Inputs, its metrics an Outcome. It needs 4
// bytes of memory for each pair of updates, and matrixBytes.
var Kind = tasks.Kind{Name: "audits/linking", Version: 3, Class: tasks.Compute, Run: audits.Measuring(link)}

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

func (p *Params) measure(c *collection, similarities *square) (pairs.Measurement, error) {
	updates := &pairs.Side{Of: c.updates}
	drawn, err := pairs.Draw(updates, updates, p.Pairs, seeds.Stream(p.Seed, seeds.UpdatePairs, linkedPairs))
	if err != nil {
		return pairs.Measurement{}, tasks.Permanent(fmt.Errorf("anonymous updates: %w", err))
	}
	return pairs.Measure(drawn.Pairs(func(a, b int) float64 { return float64(similarities.at(a, b)) }), p.Seed, linkedPairs)
}

// linkedPairs numbers the pairs of this audit in an experiment.
const linkedPairs = 0

// next finds, for each update of a device with an earlier one, the most similar earlier update, the first of
// equals, and counts those of the same device.
func next(list []pairs.Update, similarities *square) Next {
	n := Next{}
	for i, u := range list {
		best, own, earlier := -1, 0, 0
		for j := range list[:i] {
			if list[j].Round >= u.Round {
				break // updates are in the order of rounds
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

type Fields struct {
	// Links anonymous devices by their recorded updates alone: by pairs and by clusters. Needs
	// training.record.
	Linking *Block `json:"linking,omitempty"`
}

type Block struct {
	observed.ViewFields
	// Maximum number of updates, of random devices, at 4 bytes of memory a pair.
	Updates int `json:"updates" default:"2000" range:"[10,10000]" unit:"updates"`
	// Pairs of updates to measure, half of them of one device.
	Pairs int `json:"pairs" default:"10000" range:"[2,1000000]" unit:"pairs" source:"Orekondy et al. 2018, section 6.1.1"`
}

const path = "audit.linking"

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	observed.CheckRecorded(s, path, f.Linking.Layers, fail)
}

func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	p := f.Linking
	return b.Node(Kind, "linking updates", Params{
		Seed: b.Setting().Seed, View: p.View(b.Setting()), Updates: p.Updates, Pairs: p.Pairs,
	}, observed.Inputs(b.Recorded(), b.Devices())...)
}

// Work counts the product of each update with each other one.
func (f *Fields) Work(s *audits.Setting) float64 {
	n := float64(f.Linking.Updates)
	return s.UpdatesWork(1, n*n, 0) / 3
}
