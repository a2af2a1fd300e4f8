package matching

import (
	"context"
	"fmt"
	"math"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models/networks"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/sameuser"
	"coalmine/tasks/devices"
)

// side is the updates that one of a pair is drawn from.
type side struct {
	part
	sample   *observed.Sample
	embedded *networks.Embedding
}

func (l *learning) sideOf(s *observed.Sample, fits func(o *observed.Observation) bool) (x *side, err error) {
	x = &side{sample: s}
	for i := range s.Of {
		if o := &s.Of[i]; fits(o) {
			x.rows, x.updates = append(x.rows, i), append(x.updates, updateOf(*o))
		}
	}
	x.embedded, err = l.embed(s, x.rows)
	return x, err
}

// comparison is pairs that are measured, scored by the network and by their cosine.
type comparison struct {
	a, b   *side
	number int
	drawn  []sameuser.Drawn
	into   *Told
}

// measure asks the network of pairs, and then compares what cosines say of the same ones.
func (p *Params) measure(ctx context.Context, r *observed.Reader, l *learning, shadow, anonymous *observed.Sample) (*Outcome, error) {
	v := &Outcome{Learned: l.Learned}
	comparisons, err := p.comparisons(l, shadow, anonymous, v)
	if err != nil {
		return nil, err
	}
	for _, c := range comparisons {
		if err := p.tell(c, &c.into.Network, c.scoreBy(l.network)); err != nil {
			return nil, err
		}
	}
	anonymousPairs := comparisons[0]
	v.Learned.Networks, err = l.training.Again(ctx, p.Again, anonymousPairs.into.Network.AP.Value, func() (ap float64, err error) {
		if anonymousPairs.a.embedded, err = l.embed(anonymous, anonymousPairs.a.rows); err != nil {
			return 0, err
		}
		return sameuser.AveragePrecision(anonymousPairs.scoreBy(l.network))
	})
	if err != nil {
		return nil, err
	}
	if !p.Centre {
		if err := r.Centre(ctx, shadow, anonymous); err != nil {
			return nil, err
		}
	}
	for _, c := range comparisons {
		if err := p.tell(c, &c.into.Cosine, c.score(func(i, j int) float64 {
			return cosine(c.a.sample.Row(c.a.rows[i]), c.b.sample.Row(c.b.rows[j]))
		})); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// tell measures the scored pairs of a comparison.
func (p *Params) tell(c *comparison, into *sameuser.Measurement, pairs []sameuser.Pair) (err error) {
	if *into, err = sameuser.Measure(pairs, p.Seed, c.number); err != nil {
		return tasks.Permanent(err)
	}
	return nil
}

// comparisons draw the pairs of everything that is measured. Pairs of anonymous updates there
// must be; of the others there are none in some worlds, such as those of unseen users in a
// closed one.
func (p *Params) comparisons(l *learning, shadow, anonymous *observed.Sample, v *Outcome) (all []*comparison, err error) {
	of := func(set devices.Set) func(o *observed.Observation) bool {
		return func(o *observed.Observation) bool { return o.Set == set }
	}
	sides := make([]*side, 4)
	for i, x := range []struct {
		sample *observed.Sample
		fits   func(o *observed.Observation) bool
	}{
		{anonymous, func(*observed.Observation) bool { return true }},
		{anonymous, of(devices.Seen)}, {anonymous, of(devices.Unseen)}, {shadow, of(devices.Seen)},
	} {
		if sides[i], err = l.sideOf(x.sample, x.fits); err != nil {
			return nil, err
		}
	}
	everyone, seen, unseen, shadowSeen := sides[0], sides[1], sides[2], sides[3]
	if len(unseen.rows) == 0 {
		seen = unseen // they are everyone
	}
	for _, x := range []struct {
		number int
		a, b   *side
		into   **Told
	}{
		{anonymousPairs, everyone, everyone, &v.Anonymous},
		{shadowPairs, shadowSeen, everyone, &v.Shadow},
		{seenPairs, seen, seen, &v.Seen},
		{unseenPairs, unseen, unseen, &v.Unseen},
	} {
		drawn, err := sameuser.Draw(x.a.updates, x.b.updates, p.Pairs, seeds.Stream(p.Seed, seeds.UpdatePairs, uint64(x.number)))
		if err != nil && x.number == anonymousPairs {
			return nil, tasks.Permanent(fmt.Errorf("anonymous updates for audit.matching: %w", err))
		}
		if err == nil {
			*x.into = new(Told)
			all = append(all, &comparison{a: x.a, b: x.b, number: x.number, drawn: drawn, into: *x.into})
		}
	}
	return all, nil
}

// scoreBy lists the pairs with the logits of a network that embedded the two sides.
func (c *comparison) scoreBy(network *networks.Pairs) []sameuser.Pair {
	return c.score(func(i, j int) float64 { return network.Logit(c.a.embedded.Row(i), c.b.embedded.Row(j)) })
}

// score lists the pairs with their scores.
func (c *comparison) score(of func(i, j int) float64) []sameuser.Pair {
	pairs := make([]sameuser.Pair, len(c.drawn))
	for i, d := range c.drawn {
		pairs[i] = sameuser.Pair{A: c.a.updates[d.A].User, B: c.b.updates[d.B].User, Score: of(d.A, d.B)}
	}
	return pairs
}

// cosine of two vectors, 0 where one is zero.
func cosine(x, y []float32) float64 {
	product := kernels.SquaredNorm(x) * kernels.SquaredNorm(y)
	if product == 0 {
		return 0
	}
	return kernels.Dot(x, y) / math.Sqrt(product)
}
