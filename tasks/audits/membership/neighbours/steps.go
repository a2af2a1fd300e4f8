package neighbours

import (
	"context"
	"errors"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/tasks"
	"coalmine/tasks/training"
)

// steps replays steps of private central training by the kind training/dp-sgd. Under Poisson sampling the
// last record is left out. Otherwise the data set Inside lacks the gradient of a record of the batch, so that
// the batch is unchanged, and in the data set Outside the last record replaces the one before it. The step
// follows the noised mean gradient unchanged.
type steps struct {
	*replayer
	claim   training.DPSGDParams
	user    int // with the last records
	records int
	inside  int // a record of the batch, except under Poisson sampling
}

func newSteps(b *replayer, p *training.DPSGDParams) (*steps, error) {
	s := &steps{replayer: b, claim: *p, user: b.population.LastPair()}
	if s.user < 0 {
		return nil, tasks.Permanent(errors.New("no user has two records without a canary; expected more data"))
	}
	_, s.records = b.population.UserRecords(s.user)
	if p.Sampling != privacy.Poisson {
		s.records--
	}
	c := &s.claim
	c.Guarantee, c.EarlyStopping, c.StopAt = nil, nil, nil
	c.Local.Optimizer, c.Local.Schedule = optimizers.Config{Kind: optimizers.SGD}, nil
	c.Local.WeightDecay, c.Local.Dropout = 0, 0
	return s, nil
}

func (s *steps) Counts() bool { return false }

// Begin implements replay.Step. Under Poisson sampling an additional record may change, by the rate, which
// others are drawn; such a step cannot be compared.
func (s *steps) Begin(_ context.Context, step int) (replay.Round, error) {
	s.begin(step)
	members, err := s.claim.Records(step, s.records, cohort(s.claim.Seed))
	if err != nil {
		return replay.Round{}, err
	}
	_, last := slices.BinarySearch(members, s.records-1)
	if s.claim.Sampling != privacy.Poisson {
		s.inside = members[seeds.Stream(s.claim.Seed, seeds.Neighbours, uint64(step)).IntN(len(members))]
		return replay.Round{Members: members, Inside: true, Outside: !last}, nil
	}
	others, err := s.claim.Records(step, s.records-1, cohort(s.claim.Seed))
	if err != nil {
		return replay.Round{}, err
	}
	comparable := slices.Equal(others, slices.DeleteFunc(slices.Clone(members), func(i int) bool { return i == s.records-1 }))
	return replay.Round{Members: members, Inside: comparable && last, Outside: comparable && !last}, nil
}

func (s *steps) Release(ctx context.Context, r replay.Replay) (replay.Release, error) {
	p, neighbour := s.claim, r.Data != replay.Whole
	if r.Data == replay.Inside && p.Sampling != privacy.Poisson {
		p.Without, neighbour = []int{s.inside}, false
	}
	data, err := s.data(ctx, neighbour)
	if err != nil {
		return replay.Release{}, err
	}
	if r.Shrunk {
		p.Clip *= shrink
	}
	if !r.Noise {
		p.NoiseMultiplier = 0
	}
	p.Local.LearningRate = magnify * float64(p.Local.Batch) / p.Clip
	p.First, p.Steps = r.Round-1, 1
	n, err := s.run(ctx, training.DPSGD, 0, 0, &p, append([]tasks.Input{s.previous(r.State, nil)}, data...)...)
	if err != nil {
		return replay.Release{}, err
	}
	sum, err := s.released(ctx, n, r.State, -1)
	return replay.Release{Sum: sum}, err
}

func (s *steps) data(ctx context.Context, neighbour bool) ([]tasks.Input, error) {
	examples := s.population.Examples(s.user)
	without, name := examples, "whole"
	switch {
	case neighbour && s.claim.Sampling == privacy.Poisson:
		without, name = examples-1, "without the last"
	case neighbour:
		without, name = examples-2, "without the last but one"
	case s.claim.Sampling != privacy.Poisson:
		without, name = examples-1, "without the last"
	}
	population, err := s.write(ctx, name, func(ctx context.Context, t *tasks.Task) error {
		return s.population.WriteWithout(ctx, t, s.user, without)
	})
	return append([]tasks.Input{population}, s.inputs...), err
}
