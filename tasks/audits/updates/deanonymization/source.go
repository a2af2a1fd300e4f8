package deanonymization

import (
	"context"
	"math"
	"math/rand/v2"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models/attacks"
	"coalmine/tasks/audits/updates/observed"
)

// source gives an attack its examples, as attacks.Data: from memory where they fit, else from
// the shards anew in each epoch, a block at a time. An epoch has a random order of the shards, and
// one of each block.
type source struct {
	params *Params
	reader *observed.Reader
	census *census
	held   attacks.Block
	all    *attacks.Block // in the order of the source; nil where it does not fit, or is not read
}

// capacity is the number of updates that fit into half of the allowed memory: a shard, and what is
// being scored, stand beside them.
func (s *source) capacity() int {
	return max(2*s.params.Batch, s.params.Memory<<20/2/(4*s.reader.Values()))
}

func (s *source) Examples() int { return len(s.census.learn) }

func (s *source) Validation() attacks.Block { return s.held }

// validate reads the examples of the validation part, of which there are at most an eighth of
// those that fit. If there are none, those that are learned from take their place: the training then
// ends when it learns nothing more of them.
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

// append takes an update into a block.
func (s *source) append(b *attacks.Block, values []float32, x example) {
	b.Rows = append(b.Rows, values...)
	b.Labels, b.At = append(b.Labels, x.class), append(b.At, x.at)
	s.normalize(b.Rows[len(b.Rows)-len(values):])
}

// normalize gives a vector the length 1, unless it is raw or all of it is 0.
func (s *source) normalize(x []float32) {
	if norm := math.Sqrt(kernels.SquaredNorm(x)); norm > 0 && !s.params.View.Raw {
		kernels.Scale(float32(1/norm), x)
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
		if err := s.stream(ctx, nil, func(b attacks.Block) error {
			all = b
			return nil
		}); err != nil {
			return err
		}
		s.all = &all
	}
	return s.deal(*s.all, rng, do)
}

// stream reads the examples from the shards, in an order from rng if it is not nil. Nothing is written
// to the last block any more: its taker may keep it.
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

// empty is a block without examples, in the memory of another.
func empty(b attacks.Block) attacks.Block {
	return attacks.Block{Rows: b.Rows[:0], Labels: b.Labels[:0], At: b.At[:0]}
}

// deal passes on a block: whole, or shuffled, a few batches at a time.
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

// close frees the examples that the scoring does not need.
func (s *source) close(kind attacks.Kind) {
	s.held = attacks.Block{}
	if kind != attacks.KNN {
		s.all = nil
	}
}

// trial scores the anonymous updates, or their sums.
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

// add takes an update into its group, and a complete group into the rows.
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
	t.normalize(s.values)
	t.rows = append(t.rows, s.values...)
	t.census.Items = append(t.census.Items, s.Item)
	if len(t.rows) < t.capacity()/2*t.reader.Values() {
		return nil
	}
	return t.score(ctx)
}

// score scores the rows.
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
