package deanonymization

import (
	"context"
	"fmt"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/devices"
)

// place is an update: a round, and the number of a device.
type place struct{ round, device int }

// census has the use of each recorded update.
type census struct {
	Scored
	// learn and validate are the examples of the training and of its validation.
	learn, validate map[place]example
	// group is the number of the sum of its round that an anonymous update is a part of,
	// sizes how many updates each of these has.
	group map[place]int
	sizes map[place]int // by round and group
}

// example is an update of a known class: the one at a place among those of its map.
type example struct{ class, at int }

// found are the updates of a training that an attack may use.
type found struct {
	shadows   map[int][]place // of each user
	others    []place         // examples of users that are no class
	anonymous []place         // in the order of rounds
}

// take goes through all updates and divides them.
func (p *Params) take(ctx context.Context, reader *observed.Reader) (*census, error) {
	set := devices.Seen
	if p.Profiles {
		set = devices.Profile
	}
	var named []int
	for _, d := range reader.Devices() {
		if d.Shadow && d.Set == set {
			named = append(named, d.User)
		}
	}
	if len(named) == 0 {
		return nil, tasks.Permanent(fmt.Errorf("no user of the set %q has a shadow device; expected data.devices, which divides users, with some that are neither unseen nor held out, and profiles where they are asked for", set))
	}
	slices.Sort(named)
	isOther, f := p.others(reader.Devices()), found{shadows: map[int][]place{}}
	err := reader.Each(ctx, func(o *observed.Observation) error {
		at, learned := place{o.Round, o.Number}, p.Learn.Has(o.Round)
		switch other := isOther(o.Device); {
		case other && learned:
			f.others = append(f.others, at)
		case o.Shadow && learned:
			f.shadows[o.User] = append(f.shadows[o.User], at)
		case !other && !o.Shadow && p.Try.Has(o.Round):
			f.anonymous = append(f.anonymous, at)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p.divide(&f, slices.Compact(named))
}

// others finds the devices of users that are no class: those of held-out users; for profiles, if there
// are none, the shadows of all.
func (p *Params) others(all []devices.Device) func(devices.Device) bool {
	heldOut := func(d devices.Device) bool { return d.Set == devices.HeldOut }
	if p.Profiles && !slices.ContainsFunc(all, heldOut) {
		return func(d devices.Device) bool { return d.Shadow && d.Set == devices.Seen }
	}
	return heldOut
}

// divide makes classes of the named users, and groups of the anonymous updates.
func (p *Params) divide(f *found, named []int) (*census, error) {
	c := &census{learn: map[place]example{}, validate: map[place]example{}, group: map[place]int{}, sizes: map[place]int{}}
	validation := seeds.Stream(p.Seed, seeds.NamingValidation)
	for _, user := range named {
		own := f.shadows[user]
		if len(own) == 0 {
			c.Untaught = append(c.Untaught, user)
			continue
		}
		c.Classes = append(c.Classes, user)
		c.teach(p, p.some(user, own), len(c.Classes)-1, validation.Float64)
	}
	if c.Unseen = len(f.others) > 0; c.Unseen {
		c.teach(p, f.others, len(c.Classes), validation.Float64)
	}
	if c.Columns() < 2 {
		return nil, tasks.Permanent(fmt.Errorf("of %d users with shadow devices only %d have sent an update by these in the recorded rounds %d to %d; expected two to tell apart: raise training.rounds or training.cohort, or record more rounds",
			len(named), len(c.Classes), p.Learn.From, p.Learn.To))
	}
	if len(f.anonymous) == 0 {
		return nil, tasks.Permanent(fmt.Errorf("no anonymous device has sent an update in the recorded rounds %d to %d; raise training.rounds or training.cohort, or record more rounds", p.Try.From, p.Try.To))
	}
	for rest := f.anonymous; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(at place) bool { return at.round != rest[0].round })
		if n < 0 {
			n = len(rest)
		}
		p.sum(c, rest[:n])
		rest = rest[n:]
	}
	c.Learned, c.Validated = len(c.learn), len(c.validate)
	return c, nil
}

// some are the examples of a user that the attack may learn from.
func (p *Params) some(user int, own []place) []place {
	if p.Examples == 0 || len(own) <= p.Examples {
		return own
	}
	chosen := seeds.Stream(p.Seed, seeds.NamingExamples, uint64(user)).Perm(len(own))[:p.Examples]
	slices.Sort(chosen)
	some := make([]place, len(chosen))
	for i, at := range chosen {
		some[i] = own[at]
	}
	return some
}

// validationShare of the examples of a class, but for its first, say when a training is over.
const validationShare = 0.1

// teach makes updates examples of a class.
func (c *census) teach(p *Params, own []place, class int, coin func() float64) {
	for i, at := range own {
		if i > 0 && p.Attack.Validates() && coin() < validationShare {
			c.validate[at] = example{class, len(c.validate)}
			continue
		}
		c.learn[at] = example{class, len(c.learn)}
	}
}

// sum divides the anonymous updates of a round into groups as equal as can be, each of Sums
// updates at least; one group where there are fewer.
func (p *Params) sum(c *census, own []place) {
	groups, round := max(1, len(own)/max(1, p.Sums)), own[0].round
	var order []int
	if p.Sums > 1 {
		order = seeds.Stream(p.Seed, seeds.SecureSums, uint64(round)).Perm(len(own))
	}
	for i, at := range own {
		if order != nil {
			at = own[order[i]]
		}
		c.group[at] = i % groups
		c.sizes[place{round, i % groups}]++
	}
}
