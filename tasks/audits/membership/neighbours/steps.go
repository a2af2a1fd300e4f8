package neighbours

import (
	"context"
	"errors"
	"slices"

	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/tasks"
	"coalmine/tasks/training"
)

// steps replays steps of private central training by the kind training/dp-sgd. Under Poisson sampling the
// last record is left out; else the last is left out of one data set, and the last but one of the other.
// The step goes along the noised mean gradient as it is.
type steps struct {
	*replayer
	claim   training.DPSGDParams
	user    int // with the last records
	records int
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

// Counts implements replay.Step.
func (s *steps) Counts() bool { return false }

// Begin implements replay.Step. A record more may change who else is drawn, by the rate; such a step has
// nothing to compare.
func (s *steps) Begin(_ context.Context, step int) (replay.Round, error) {
	s.begin(step)
	members, err := s.claim.Records(step, s.records, cohort(s.claim.Seed))
	if err != nil {
		return replay.Round{}, err
	}
	comparable := true
	_, last := slices.BinarySearch(members, s.records-1)
	if s.claim.Sampling == privacy.Poisson {
		others, err := s.claim.Records(step, s.records-1, cohort(s.claim.Seed))
		if err != nil {
			return replay.Round{}, err
		}
		comparable = slices.Equal(others, slices.DeleteFunc(slices.Clone(members), func(i int) bool { return i == s.records-1 }))
	}
	return replay.Round{Members: members, Inside: comparable && last, Outside: comparable && !last}, nil
}

// Release implements replay.Step.
func (s *steps) Release(ctx context.Context, r replay.Replay) (replay.Release, error) {
	data, err := s.data(ctx, r.Data != replay.Whole)
	if err != nil {
		return replay.Release{}, err
	}
	p := s.claim
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

// data are the inputs of a data set.
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
