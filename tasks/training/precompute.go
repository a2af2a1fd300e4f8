package training

import (
	"context"

	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
)

// start is the initial state of clients.
type start struct {
	network models.Network
	// trained are the round's parameters that clients train. fixed are the parameters after
	// them, nil if the learners' use of them is precomputed.
	trained, fixed []float32
	// precomputed holds random draws for the gradients of users, by user; nil if learners draw.
	// Users are added while it holds fewer than maxPrecomputed float32.
	precomputed    map[int][][]float32
	maxPrecomputed int
}

// maxPrecomputed is the number of float32 in 16 MiB.
const maxPrecomputed = 4 << 20

// readStart reads the round's trained parameters.
func readStart(ctx context.Context, t *tasks.Task) (*start, error) {
	model, err := checkpoints.ReadTrained(ctx, t, tasks.PreviousInput)
	if err != nil {
		return nil, err
	}
	return &start{network: model.Network, trained: model.Params, maxPrecomputed: maxPrecomputed}, nil
}

// prepare precomputes draws for the first users, and returns their number, at least one. Untrained
// parameters, such as those of a generator, may be most of a model. So results that need them are
// computed first, for some users at a time, and then the parameters are released.
func (s *start) prepare(ctx context.Context, t *tasks.Task, p *ClientsParams, pop *population.Population, users []int) (n int, err error) {
	s.precomputed = nil
	model, err := checkpoints.ReadFixed(ctx, t, tasks.PreviousInput)
	if err != nil {
		return 0, err
	}
	l, ok := s.network.NewLearner(model.Params).(models.Precomputing)
	if !ok {
		s.fixed = model.Params
		return len(users), nil
	}
	return s.precompute(ctx, l, p, t.Step, pop, users)
}

// precompute precomputes draws and returns the number of users covered.
func (s *start) precompute(ctx context.Context, l models.Precomputing, p *ClientsParams, round int, pop *population.Population, users []int) (n int, err error) {
	s.precomputed = map[int][][]float32{}
	for room := s.maxPrecomputed; n < len(users) && room > 0; n++ {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		user := users[n]
		rng := seeds.Stream(p.Seed, seeds.Fakes, uint64(round), uint64(user))
		vectors, err := l.Precompute(rng, batchSizes(pop.Examples(user), p.Local.Batch, p.Epochs, p.Steps))
		if err != nil {
			return n, tasks.Permanent(err)
		}
		s.precomputed[user] = vectors
		for _, v := range vectors {
			room -= len(v)
		}
	}
	return n, nil
}
