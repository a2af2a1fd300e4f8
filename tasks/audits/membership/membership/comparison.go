package membership

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets/text"
)

type LossParams struct {
	utility.UserShare
	// PrefixUsers require UserShare.ByToken. Seed is the seed of the words of NeighbourTexts.
	Rescoring
	Seed uint64 `json:"seed,omitempty"`
}

// comparison scores texts for comparison with those of a user.
type comparison struct {
	LossParams
	all *everyone
	// before are the texts of the prefix users, from prefix; pool holds words. All are nil until needed.
	before [][]int32
	prefix *models.States
	pool   []int32
}

// measure adds the losses of other texts to that of a user with some examples.
func (c *comparison) measure(ctx context.Context, model *utility.UserModel, user int, examples [][]int32, loss *UserLoss) error {
	loss.Aside = c.all.heldOutIndex(user) >= 0 && c.all.heldOutIndex(user) < c.PrefixUsers
	if c.PrefixUsers > 0 && !loss.Aside {
		prefixed, err := c.prefixed(ctx, model, examples)
		if err != nil {
			return fmt.Errorf("after the texts of %s: %w", readable.Count(c.PrefixUsers, "held-out user"), err)
		}
		loss.Prefixed = prefixed
	}
	if c.NeighbourTexts == 0 {
		return nil
	}
	if err := c.readPool(ctx); err != nil {
		return err
	}
	stream := seeds.Stream(c.Seed, seeds.MemberNeighbours, uint64(user))
	texts := lists.Map(examples, func(example []int32) [][]int32 { return Neighbours(stream, example, c.pool, c.NeighbourTexts) })
	found, err := lossAlone(model, slices.Concat(texts...))
	loss.Neighbours = found.Loss / float64(c.NeighbourTexts)
	return err
}

// prefixed returns the loss of examples after the texts of the prefix users.
func (c *comparison) prefixed(ctx context.Context, model *utility.UserModel, examples [][]int32) (loss float64, err error) {
	if err := c.readPrefix(ctx); err != nil {
		return 0, err
	}
	if model.Score != nil {
		found, err := model.Score(c.before, examples)
		return found.Loss, err
	}
	if c.prefix == nil {
		c.prefix = model.Scorer.Start(1)
		for _, of := range c.before {
			if err := model.Scorer.Feed(c.prefix, of); err != nil {
				return 0, tasks.Permanent(err)
			}
		}
	}
	losses, err := model.Scorer.LossesAfter(c.prefix, examples)
	for _, l := range losses {
		loss += l.Sum
	}
	return loss, tasks.Permanent(err)
}

func (c *comparison) readPrefix(ctx context.Context) error {
	if c.before != nil {
		return nil
	}
	for user := range min(c.PrefixUsers, c.all.heldOut.Users()) {
		examples, err := c.all.heldOut.ReadUser(ctx, user)
		if err != nil {
			return err
		}
		c.before = append(c.before, examples...)
	}
	return nil
}

// poolUsers is the number of users whose words may replace others.
const poolUsers = 256

// readPool reads the words of evenly spread users.
func (c *comparison) readPool(ctx context.Context) error {
	if c.pool != nil {
		return nil
	}
	pool, users := []int32{}, c.all.users()
	for i := range min(poolUsers, users) {
		examples, _, err := c.all.read(ctx, i*users/min(poolUsers, users))
		if err != nil {
			return err
		}
		pool = append(pool, slices.DeleteFunc(slices.Concat(examples...), special)...)
	}
	c.pool = pool
	return nil
}

func special(token int32) bool { return token < text.FirstWord }

// Neighbours returns n copies of an example, in each of which words of a pool replace one ordinary word in
// twenty, at least one. An example without ordinary words has unchanged copies.
func Neighbours(stream *rand.Rand, example, pool []int32, n int) [][]int32 {
	var places []int
	for place, token := range example {
		if !special(token) && len(pool) > 0 {
			places = append(places, place)
		}
	}
	texts := make([][]int32, n)
	for i := range texts {
		texts[i] = slices.Clone(example)
		order := stream.Perm(len(places))
		for _, at := range order[:min(len(order), max(1, len(order)/20))] {
			texts[i][places[at]] = otherWord(stream, example[places[at]], pool)
		}
	}
	return texts
}

// otherWord draws until the word differs, at most ten times.
func otherWord(stream *rand.Rand, word int32, pool []int32) int32 {
	other := word
	for range 10 {
		if other = pool[stream.IntN(len(pool))]; other != word {
			break
		}
	}
	return other
}
