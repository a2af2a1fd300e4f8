package neighbours

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/privacy/empirical/replay"
	"coalmine/tasks"
	"coalmine/tasks/external"
)

// runStepped asks a command for steps on data that this audit chooses.
func runStepped(ctx context.Context, t *tasks.Task, p *ReportParams, stepper *external.Stepper) error {
	rng := seeds.Stream(p.Train.Seed, seeds.Neighbours, 0)
	s := &stepped{Stepper: stepper, experiment: p.Train.Seed, seed: rng.Uint64() >> 11, other: rng.Uint64() >> 11, clean: map[replay.Data][]float32{}}
	return p.test(ctx, t, &stepper.Claim.ReplayClaim, s, replay.Plan{States: len(stepper.States), Moves: moves, Search: search})
}

// stepped is a command that takes steps as a training does. Coalmine chooses the members that data sets lack.
type stepped struct {
	*external.Stepper
	experiment uint64
	seed       uint64                    // of the command's samples and steps, below 2^53
	other      uint64                    // seed of other steps for the same sample
	clean      map[replay.Data][]float32 // of the round, in clip norms
	batch      []int
	inside     int
	outside    int
}

// Parts implements replay.Step.
func (s *stepped) Parts() (list []replay.Part) {
	offset := 0
	for _, p := range s.Claim.Parameters {
		size := external.Volume(p.Shape)
		list = append(list, replay.Part{Name: p.Name, Offset: offset, Size: size})
		offset += size
	}
	return list
}

// Counts implements replay.Step.
func (s *stepped) Counts() bool { return false }

// Begin implements replay.Step.
func (s *stepped) Begin(ctx context.Context, round int) (replay.Round, error) {
	var err error
	if s.batch, err = s.Sample(ctx, round, s.seed); err != nil {
		return replay.Round{}, err
	}
	rng := seeds.Stream(s.experiment, seeds.Neighbours, uint64(round))
	if len(s.batch) > 0 {
		s.inside = s.batch[rng.IntN(len(s.batch))]
	}
	s.outside = outsider(rng, s.batch, s.Claim.Population)
	return replay.Round{Members: s.batch, Inside: len(s.batch) > 0, Outside: s.outside >= 0}, nil
}

// outsider draws a member of a population who is not in members, or returns -1.
func outsider(rng *rand.Rand, members []int, population int) int {
	for range attempts {
		member := rng.IntN(population)
		if _, in := slices.BinarySearch(members, member); !in {
			return member
		}
	}
	return -1
}

// Release implements replay.Step.
func (s *stepped) Release(ctx context.Context, r replay.Replay) (replay.Release, error) {
	request := external.StepRequest{
		Round: r.Round, Seed: s.seed, Parameters: s.States[r.State], Batch: s.batch, Without: []int{}, Clip: s.Claim.Clip, Noise: r.Noise,
	}
	if r.Shrunk {
		request.Clip *= shrink
	}
	switch r.Data {
	case replay.Inside:
		request.Without = []int{s.inside}
		request.Batch = slices.DeleteFunc(slices.Clone(s.batch), func(m int) bool { return m == s.inside })
	case replay.Outside:
		request.Without = []int{s.outside}
	case replay.Whole:
	}
	if !r.Noise {
		sum, err := s.take(ctx, request)
		s.clean[r.Data] = sum
		return replay.Release{Sum: sum}, err
	}
	sum, err := s.noisy(ctx, request, s.clean[r.Data])
	return replay.Release{Sum: sum}, err
}

// take asks for a step, as a sum in clip norms.
func (s *stepped) take(ctx context.Context, r external.StepRequest) ([]float32, error) {
	sum, err := s.Step(ctx, r)
	for i := range sum {
		sum[i] = float32(float64(sum[i]) * s.Claim.Divisor / r.Clip)
	}
	return sum, err
}

// noisy adds noise to a clean step: the difference of two noisy ones of other seeds over the root of 2. So
// the noise is that of noisy steps, whatever the command does in steps without noise.
func (s *stepped) noisy(ctx context.Context, r external.StepRequest, clean []float32) ([]float32, error) {
	one, err := s.take(ctx, r)
	if err != nil {
		return nil, err
	}
	r.Seed = s.other
	other, err := s.take(ctx, r)
	if err != nil {
		return nil, err
	}
	if slices.Equal(one, other) && !slices.Equal(one, clean) {
		return nil, external.StepsByRequest.Broken("its step of round %d has the same noise by another seed", r.Round)
	}
	for i, v := range clean {
		one[i] = float32(float64(v) + (float64(one[i])-float64(other[i]))/math.Sqrt2)
	}
	return one, nil
}
