package training

import (
	"context"

	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
)

// start is what clients begin from.
type start struct {
	network models.Network
	// trained are the round's parameters that clients train. fixed are those after them, nil
	// where all that learners take of them is foreseen.
	trained, fixed []float32
	// foreseen is what the gradients of a user take, by user; nil if they draw it themselves.
	// A next user is foreseen while it is less than so many float32.
	foreseen     map[int][][]float32
	mostForeseen int
}

// mostForeseen is 16 MiB.
const mostForeseen = 4 << 20

// readStart reads the round's trained parameters.
func readStart(ctx context.Context, t *tasks.Task) (*start, error) {
	model, err := checkpoints.ReadTrained(ctx, t, tasks.PreviousInput)
	if err != nil {
		return nil, err
	}
	return &start{network: model.Network, trained: model.Params, mostForeseen: mostForeseen}, nil
}

// prepare makes ready for the first of the users, and says for how many: all, or at least
// one. Parameters that are not trained, such as those of a generator, may be most of a model.
// So what clients take of them is made first, for some users at a time, and then they are
// let go of.
func (s *start) prepare(ctx context.Context, t *tasks.Task, p *ClientsParams, population *datasets.Population, users []int) (n int, err error) {
	s.foreseen = nil
	model, err := checkpoints.ReadFixed(ctx, t, tasks.PreviousInput)
	if err != nil {
		return 0, err
	}
	l, ok := s.network.NewLearner(model.Params).(models.Foreseeing)
	if !ok {
		s.fixed = model.Params
		return len(users), nil
	}
	return s.foresee(ctx, l, p, t.Step, population, users)
}

// foresee says for how many of the users it has done so.
func (s *start) foresee(ctx context.Context, l models.Foreseeing, p *ClientsParams, round int, population *datasets.Population, users []int) (n int, err error) {
	s.foreseen = map[int][][]float32{}
	for room := s.mostForeseen; n < len(users) && room > 0; n++ {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		user := users[n]
		rng := seeds.Stream(p.Seed, seeds.Fakes, uint64(round), uint64(user))
		vectors, err := l.Foresee(rng, batchSizes(population.Examples(user), p.Local.Batch, p.Epochs, p.Steps))
		if err != nil {
			return n, tasks.Permanent(err)
		}
		s.foreseen[user] = vectors
		for _, v := range vectors {
			room -= len(v)
		}
	}
	return n, nil
}
