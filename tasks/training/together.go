package training

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/tasks/clientprograms"
)

// waitingClients queues users of the chunk, in order, for one request to the program. A request has
// as many users as the program accepts, or those before a member of the cohort that the program
// does not train. So the plan and the program's description determine the groups, never the worker.
type waitingClients struct {
	users []int
	work  []clientprograms.User
}

// together describes the program's training of several clients at once; nil if unsupported.
func (f *fitter) together() *clientprograms.Together {
	if f == nil {
		return nil
	}
	return f.client.Description().Together
}

// wait queues a client for training.
func (c *chunkSum) wait(ctx context.Context, examples [][]int32, round, user int) error {
	w := &c.waiting
	w.users = append(w.users, user)
	work := clientprograms.User{Examples: examples, Seed: c.fitter.seedOf(round, user)}
	if c.fitter.native {
		work.Batches = c.places(len(examples), round, user)
	}
	w.work = append(w.work, work)
	if len(w.users) < c.fitter.together().Users {
		return nil
	}
	return c.trainWaiting(ctx, round)
}

// trainWaiting trains the queued clients, and adds their updates.
func (c *chunkSum) trainWaiting(ctx context.Context, round int) error {
	w := c.waiting
	c.waiting = waitingClients{}
	if len(w.users) == 0 {
		return nil
	}
	work := clientprograms.ManyWork{Model: c.fitter.model, Users: w.work, Round: round}
	if c.fitter.native {
		work.LearningRate, work.LargestLoss = c.params.Local.Rate(round-1), models.LargestLoss
	}
	var err error
	if c.summable() {
		err = c.addSum(ctx, work)
	} else {
		err = c.addMany(ctx, work, w.users)
	}
	if d, ok := errors.AsType[*clientprograms.DivergedError](err); ok {
		return divergedClient(d, w.users[d.User], round)
	}
	if err != nil {
		return fmt.Errorf("clients %d to %d, round %d: %w", w.users[0], w.users[len(w.users)-1], round, err)
	}
	return nil
}

// divergedClient returns the error of a client that diverged in a program, as that of a native one.
func divergedClient(d *clientprograms.DivergedError, user, round int) error {
	where := fmt.Sprintf("client %d, round %d", user, round)
	if d.Step > 0 {
		where += fmt.Sprintf(", step %d", d.Step)
	}
	if d.Name == updateName {
		where += ", its last"
	}
	return diverged(&d.DivergedError, "%s", where)
}

// summable reports whether the program may add up the updates: no single update is inspected or
// changed.
func (c *chunkSum) summable() bool {
	return c.fitter.together().Sum && c.recorder == nil && !c.sender.changes() && c.params.Control == ""
}

// addSum adds the program's sum of updates.
func (c *chunkSum) addSum(ctx context.Context, work clientprograms.ManyWork) error {
	c.sum.release()
	var weights []float64
	if c.params.Clip > 0 {
		weights = slices.Repeat([]float64{1}, len(work.Users))
	}
	users, err := c.fitter.client.Sum(ctx, work, c.params.Clip, weights, c.learner.params)
	if err != nil {
		return err
	}
	c.sum.add(c.learner.params, 1)
	for i := range users {
		weight, scale := c.metrics.count(&users[i].Fitted), 1.0
		if c.params.Clip > 0 {
			weight, scale = 1, privacy.ClipScale(users[i].Norm, c.params.Clip)
		}
		c.count(users[i].Norm, weight, scale)
	}
	return nil
}

// addMany adds one update after the other.
func (c *chunkSum) addMany(ctx context.Context, work clientprograms.ManyWork, users []int) error {
	c.learner.anchor = c.start.trained
	return c.fitter.client.FitMany(ctx, work, func(i int, fitted *clientprograms.Fitted, params []float32) error {
		c.sum.release()
		copy(c.learner.params, params)
		return c.addLearned(c.metrics.count(fitted), 0, work.Round, users[i])
	})
}

// places returns the indexes of the examples in each step of a client, as in train.
func (c *chunkSum) places(examples, round, user int) (steps [][]int) {
	all, rng := make([]int, examples), c.orders(round, user)
	for i := range all {
		all[i] = i
	}
	for range c.params.Epochs {
		var order []int
		for batch := range batches(all, &order, c.params.Local.Batch, rng) {
			if c.params.Steps > 0 && len(steps) == c.params.Steps {
				return steps
			}
			steps = append(steps, batch)
		}
	}
	return steps
}

func (f *fitter) seedOf(round, user int) uint64 {
	return smallSeed(f.seed, seeds.Client, uint64(round), uint64(user))
}
