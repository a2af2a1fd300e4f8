package deanonymization

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/models/attacks"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/devices"
)

// source passes examples to an attack: from memory if they fit, otherwise from the shards in each epoch, a
// block at a time. An epoch shuffles the shards, and each block.
type source struct {
	params *Params
	reader *observed.Reader
	census *census
	held   attacks.Block
	all    *attacks.Block // in the order of the source; nil unless it fits and was read
}

// capacity returns the number of updates in half of the memory. The other half holds a shard and the scored
// updates.
func (s *source) capacity() int {
	return max(2*s.params.Batch, s.params.Memory<<20/2/(4*s.reader.Values()))
}

func (s *source) Examples() int { return len(s.census.learn) }

func (s *source) Validation() attacks.Block { return s.held }

// validate reads the examples of the validation, at most an eighth of capacity. Without any, training
// examples validate: the training then ends when their loss stops falling.
func (s *source) validate(ctx context.Context) error {
	if !s.params.Attack.Validates() {
		return nil
	}
	from := s.census.validate
	if len(from) == 0 {
		from = s.census.learn
	}
	most := max(1, s.capacity()/8)
	return s.reader.Each(ctx, func(o *observed.Observation) error {
		if x, ok := from[place{o.Round, o.Number}]; ok && len(s.held.Labels) < most {
			s.append(&s.held, o.Values, x)
		}
		return nil
	})
}

func (s *source) append(b *attacks.Block, values []float32, x example) {
	b.Rows = append(b.Rows, values...)
	b.Labels, b.At = append(b.Labels, x.class), append(b.At, x.at)
	if !s.params.View.Raw {
		observed.Normalize(b.Rows[len(b.Rows)-len(values):])
	}
}

func (s *source) Blocks(ctx context.Context, epoch int, do func(attacks.Block) error) error {
	var rng *rand.Rand
	if epoch > 0 {
		rng = seeds.Stream(s.params.Seed, seeds.NamingOrder, uint64(epoch))
	}
	if s.Examples() > s.capacity() {
		return s.stream(ctx, rng, do)
	}
	if s.all == nil {
		var all attacks.Block
		if err := s.stream(ctx, nil, func(b attacks.Block) error { all = b; return nil }); err != nil {
			return err
		}
		s.all = &all
	}
	return s.deal(*s.all, rng, do)
}

// stream reads the examples from the shards, which rng shuffles if it is not nil. The last block is not
// overwritten: do may keep it.
func (s *source) stream(ctx context.Context, rng *rand.Rand, do func(attacks.Block) error) error {
	shards, err := s.reader.Shards(ctx)
	if err != nil {
		return err
	}
	if rng != nil {
		rng.Shuffle(len(shards), func(i, j int) { shards[i], shards[j] = shards[j], shards[i] })
	}
	most := min(s.capacity(), s.Examples())
	b := attacks.Block{Rows: make([]float32, 0, most*s.reader.Values()), Labels: make([]int, 0, most), At: make([]int, 0, most)}
	err = s.reader.EachOf(ctx, shards, func(o *observed.Observation) error {
		x, ok := s.census.learn[place{o.Round, o.Number}]
		if !ok {
			return nil
		}
		if s.append(&b, o.Values, x); len(b.Labels) < most {
			return nil
		}
		err := s.deal(b, rng, do)
		b = empty(b)
		return err
	})
	if err != nil || len(b.Labels) == 0 {
		return err
	}
	return s.deal(b, rng, do)
}

// empty returns a block without examples in the memory of another.
func empty(b attacks.Block) attacks.Block {
	return attacks.Block{Rows: b.Rows[:0], Labels: b.Labels[:0], At: b.At[:0]}
}

// deal passes a block to do: whole if rng is nil, otherwise shuffled, a few batches at a time.
func (s *source) deal(b attacks.Block, rng *rand.Rand, do func(attacks.Block) error) error {
	if rng == nil {
		return do(b)
	}
	order, d := rng.Perm(len(b.Labels)), s.reader.Values()
	const batches = 4
	var hand attacks.Block
	for i, at := range order {
		hand.Rows = append(hand.Rows, b.Rows[at*d:(at+1)*d]...)
		hand.Labels, hand.At = append(hand.Labels, b.Labels[at]), append(hand.At, b.At[at])
		if len(hand.Labels) == batches*s.params.Batch || i == len(order)-1 {
			if err := do(hand); err != nil {
				return err
			}
			hand = empty(hand)
		}
	}
	return nil
}

// close frees the examples that scoring does not need.
func (s *source) close(kind attacks.Kind) {
	s.held = attacks.Block{}
	if kind != attacks.KNN {
		s.all = nil
	}
}

type trial struct {
	*source
	attack attacks.Attack
	open   map[place]*sum
	rows   []float32
	scores []float32
}

// sum is an incomplete group.
type sum struct {
	Item
	values []float32
}

func (t *trial) run(ctx context.Context) error {
	t.open = map[place]*sum{}
	err := t.reader.Each(ctx, func(o *observed.Observation) error {
		group, ok := t.census.group[place{o.Round, o.Number}]
		if !ok {
			return nil
		}
		return t.add(ctx, place{o.Round, group}, o)
	})
	if err != nil {
		return err
	}
	return t.score(ctx)
}

// add adds an update to its group, and a complete group to the rows.
func (t *trial) add(ctx context.Context, group place, o *observed.Observation) error {
	s := t.open[group]
	if s == nil {
		s = &sum{Item{Round: o.Round}, make([]float32, len(o.Values))}
		t.open[group] = s
	}
	kernels.Add(s.values, o.Values)
	s.Users = append(s.Users, o.User)
	if len(s.Users) < t.census.sizes[group] {
		return nil
	}
	delete(t.open, group)
	if !t.params.View.Raw {
		observed.Normalize(s.values)
	}
	t.rows = append(t.rows, s.values...)
	t.census.Items = append(t.census.Items, s.Item)
	if len(t.rows) < t.capacity()/2*t.reader.Values() {
		return nil
	}
	return t.score(ctx)
}

func (t *trial) score(ctx context.Context) error {
	if len(t.rows) == 0 {
		return nil
	}
	n := len(t.rows) / t.reader.Values() * t.census.Columns()
	from := len(t.scores)
	t.scores = append(t.scores, make([]float32, n)...)
	err := t.attack.Score(ctx, t.rows, t.scores[from:])
	t.rows = t.rows[:0]
	return err
}

// place is an update: a round, and the number of a device.
type place struct{ round, device int }

// census divides the recorded updates by their use.
type census struct {
	Scored
	// learn and validate have the examples of the training and of its validation.
	learn, validate map[place]example
	// group is the number of the sum that includes an anonymous update; sizes counts its updates, by round
	// and group.
	group map[place]int
	sizes map[place]int
}

// example is an update of a known class, by its index in its map.
type example struct{ class, at int }

type found struct {
	shadows   map[int][]place // of each user
	others    []place         // examples of users without a class
	anonymous []place         // in the order of rounds
}

func (p *Params) take(ctx context.Context, reader *observed.Reader) (*census, error) {
	set := devices.Seen
	if p.Profiles {
		set = devices.Profile
	}
	shadows := lists.Filter(reader.Devices(), func(d devices.Device) bool { return d.Shadow && d.Set == set })
	named := lists.Distinct(lists.Map(shadows, func(d devices.Device) int { return d.User }))
	if len(named) == 0 {
		return nil, tasks.Permanent(fmt.Errorf("no user of the set %q has a shadow device; expected data.devices, which divides users, with some that are neither unseen nor held out, and profiles where they are asked for", set))
	}
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
	return p.divide(&f, named)
}

// others finds the devices of users without a class: held-out ones, or for profiles without held-out users,
// the shadows of all users.
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

// some returns the examples of a user to learn from.
func (p *Params) some(user int, own []place) []place {
	if p.Examples == 0 || len(own) <= p.Examples {
		return own
	}
	chosen := seeds.Stream(p.Seed, seeds.NamingExamples, uint64(user)).Perm(len(own))[:p.Examples]
	slices.Sort(chosen)
	return lists.Map(chosen, func(at int) place { return own[at] })
}

// validationShare is the share of a class's examples, except the first, for validation.
const validationShare = 0.1

func (c *census) teach(p *Params, own []place, class int, coin func() float64) {
	for i, at := range own {
		if i > 0 && p.Attack.Validates() && coin() < validationShare {
			c.validate[at] = example{class, len(c.validate)}
			continue
		}
		c.learn[at] = example{class, len(c.learn)}
	}
}

// sum divides a round's anonymous updates into groups of sizes as equal as possible, each of at least Sums
// updates, or into one group.
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
