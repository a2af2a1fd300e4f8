// Package matching trains a Siamese network on pairs of the adversary's own updates, and scores with it
// whether pairs of anonymous updates are of one user. The network learns the common part of a
// user's updates, so it also distinguishes users outside its training (Orekondy et al. 2018, sections
// 4.3 and 6.1.2).
//
//	audits/matching  trains the network, and measures it
package matching

import (
	"context"
	"fmt"
	"math"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models/networks"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/pairs"
	"coalmine/tasks/devices"
)

// Kind trains and measures, by pairs.Params. Its inputs are those of observed.Inputs, its metrics an Outcome.
// It needs memory for twice the values of Updates updates and four times the network.
var Kind = tasks.Kind{Name: "audits/matching", Version: 5, Class: tasks.Compute, Run: audits.Measuring(measure)}

func measure(ctx context.Context, t *tasks.Task, p *pairs.Params) (*Outcome, error) {
	m := matching{Training: pairs.Training{Params: *p, Task: t, Number: pairs.Matching, Validation: validationPairs, First: trainingPairs}}
	m.Draw = func(updates *pairs.Side, number int) (*pairs.Comparison, error) {
		return m.draw(updates, updates, number, "updates of shadow devices")
	}
	r, shadow, anonymous, err := m.Read(ctx, t, 0, func(o *observed.Observation) bool { return o.Set != devices.Profile })
	if err != nil {
		return nil, err
	}
	tower := &networks.Tower{Inputs: shadow.Values, Units: []int{m.Units, m.Units}}
	if err := m.Learn(ctx, shadow, tower, tower); err != nil {
		return nil, err
	}
	if err := m.measure(ctx, shadow, anonymous); err != nil {
		return nil, err
	}
	if !m.Centre {
		if err := r.Centre(ctx, shadow, anonymous); err != nil {
			return nil, err
		}
	}
	return &m.outcome, m.measureCosine()
}

type matching struct {
	pairs.Training
	outcome     Outcome
	comparisons []comparison
}

type comparison struct {
	*pairs.Comparison
	number int
	into   *Measurements
}

// Numbers of the draws of pairs, and of their bootstraps.
const (
	validationPairs = 1 + iota
	anonymousPairs
	shadowPairs
	seenPairs
	unseenPairs
	trainingPairs // first of one number for each epoch
)

// draw draws pairs of updates. updates is their name in errors.
func (m *matching) draw(a, b *pairs.Side, number int, updates string) (*pairs.Comparison, error) {
	c, err := pairs.Draw(a, b, m.Pairs, seeds.Stream(m.Seed, seeds.UpdatePairs, uint64(number)))
	if err != nil {
		return nil, tasks.Permanent(fmt.Errorf("%s for audit.matching: %w", updates, err))
	}
	return c, nil
}

func (m *matching) measure(ctx context.Context, shadow, anonymous *observed.Sample) error {
	everyone, seen, unseen := pairs.Sides(anonymous)
	known := pairs.SideOf(shadow, func(o *observed.Observation) bool { return o.Set == devices.Seen })
	trial := func(number int, a, b *pairs.Side) pairs.Trial {
		return pairs.Trial{Bootstrap: number, Draw: func() (*pairs.Comparison, error) { return m.draw(a, b, number, "anonymous updates") }}
	}
	trials := []pairs.Trial{
		trial(anonymousPairs, everyone, everyone), trial(shadowPairs, known, everyone), trial(seenPairs, seen, seen), trial(unseenPairs, unseen, unseen),
	}
	into := []**Measurements{&m.outcome.Anonymous, &m.outcome.Shadow, &m.outcome.Seen, &m.outcome.Unseen}
	err := m.Measure(ctx, trials, func(i int, c *pairs.Comparison, _ []pairs.Pair, found pairs.Measurement) {
		*into[i] = &Measurements{Network: found}
		m.comparisons = append(m.comparisons, comparison{c, trials[i].Bootstrap, *into[i]})
	})
	m.outcome.Learned = m.Learned
	return err
}

// measureCosine measures the cosine of the same pairs, centred.
func (m *matching) measureCosine() (err error) {
	for _, c := range m.comparisons {
		scored := c.Pairs(func(a, b int) float64 { return cosine(c.First.Row(a), c.Second.Row(b)) })
		if c.into.Cosine, err = pairs.Measure(scored, m.Seed, c.number); err != nil {
			return err
		}
	}
	return nil
}

// cosine returns the cosine of two vectors, 0 if one is zero.
func cosine(x, y []float32) float64 {
	product := kernels.SquaredNorm(x) * kernels.SquaredNorm(y)
	if product == 0 {
		return 0
	}
	return kernels.Dot(x, y) / math.Sqrt(product)
}
