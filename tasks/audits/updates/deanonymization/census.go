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

// census says what each recorded update is for.
type census struct {
	Scored
	// learn and validate have what an attack is to know of an update.
	learn, validate map[place]example
	// group is the number of the sum of its round that an anonymous update is a part of,
	// sizes how many updates each of these has.
	group map[place]int
	sizes map[place]int // by round and group
}

// example is an update of a known class: the one at a place among those of its map.
type example struct{ class, at int }

// taken are the updates as they are found.
type taken struct {
	shadows   map[int][]place // of a user who is to be named
	heldOut   []place
	anonymous map[int][]place // of a round
	rounds    []int
	users     map[int]bool // who are to be named
	others    func(devices.Device) bool
}

// take goes through all updates and divides them.
func (p *Params) take(ctx context.Context, reader *observed.Reader) (*census, error) {
	found := taken{shadows: map[int][]place{}, anonymous: map[int][]place{}, users: map[int]bool{}, others: p.others(reader.Devices())}
	for _, d := range reader.Devices() {
		if d.Shadow && d.Set == p.named() {
			found.users[d.User] = true
		}
	}
	if len(found.users) == 0 {
		return nil, tasks.Permanent(fmt.Errorf("no user of the set %q has a shadow device; expected data.devices, which divides users, with some that are neither unseen nor held out, and profiles where they are asked for", p.named()))
	}
	err := reader.Each(ctx, func(o *observed.Observation) error {
		p.note(&found, o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p.divide(&found)
}

// named is the set of those whom the attack is to name.
func (p *Params) named() devices.Set {
	if p.Profiles {
		return devices.Profile
	}
	return devices.Seen
}

// others finds the devices that show what is not to be named: those of held-out users; of
// profiles, where there are none, the shadows of all.
func (p *Params) others(all []devices.Device) func(devices.Device) bool {
	heldOut := func(d devices.Device) bool { return d.Set == devices.HeldOut }
	if p.Profiles && !slices.ContainsFunc(all, heldOut) {
		return func(d devices.Device) bool { return d.Shadow && d.Set == devices.Seen }
	}
	return heldOut
}

// note takes an update in.
func (p *Params) note(found *taken, o *observed.Observation) {
	at := place{o.Round, o.Number}
	switch {
	case found.others(o.Device):
		if p.Learn.Has(o.Round) {
			found.heldOut = append(found.heldOut, at)
		}
	case o.Shadow:
		if p.Learn.Has(o.Round) {
			found.shadows[o.User] = append(found.shadows[o.User], at)
		}
	case p.Try.Has(o.Round):
		if found.anonymous[o.Round] == nil {
			found.rounds = append(found.rounds, o.Round)
		}
		found.anonymous[o.Round] = append(found.anonymous[o.Round], at)
	}
}

func (p *Params) divide(found *taken) (*census, error) {
	c := &census{learn: map[place]example{}, validate: map[place]example{}, group: map[place]int{}, sizes: map[place]int{}}
	validation := seeds.Stream(p.Seed, seeds.NamingValidation)
	for user := range slices.Max(keys(found.users)) + 1 {
		switch own := found.shadows[user]; {
		case !found.users[user]:
		case len(own) == 0:
			c.Untaught = append(c.Untaught, user)
		default:
			c.Classes = append(c.Classes, user)
			c.teach(p, p.some(user, own), len(c.Classes)-1, validation.Float64)
		}
	}
	if c.Unseen = len(found.heldOut) > 0; c.Unseen {
		c.teach(p, found.heldOut, len(c.Classes), validation.Float64)
	}
	if c.Columns() < 2 {
		return nil, tasks.Permanent(fmt.Errorf("of %d users with shadow devices only %d have sent an update by these in the recorded rounds %d to %d; expected two to tell apart: raise training.rounds or training.cohort, or record more rounds",
			len(found.users), len(c.Classes), p.Learn.From, p.Learn.To))
	}
	for _, round := range found.rounds {
		p.sum(c, round, found.anonymous[round])
	}
	if c.Learned, c.Validated = len(c.learn), len(c.validate); len(c.group) == 0 {
		return nil, tasks.Permanent(fmt.Errorf("no anonymous device has sent an update in the recorded rounds %d to %d; raise training.rounds or training.cohort, or record more rounds", p.Try.From, p.Try.To))
	}
	return c, nil
}

func keys(m map[int]bool) (list []int) {
	for k := range m {
		list = append(list, k)
	}
	return list
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
func (p *Params) sum(c *census, round int, own []place) {
	groups := max(1, len(own)/max(1, p.Sums))
	order := make([]int, len(own))
	for i := range order {
		order[i] = i
	}
	if p.Sums > 1 {
		order = seeds.Stream(p.Seed, seeds.SecureSums, uint64(round)).Perm(len(own))
	}
	for i, at := range order {
		c.group[own[at]] = i % groups
		c.sizes[place{round, i % groups}]++
	}
}
