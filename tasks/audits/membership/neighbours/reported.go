package neighbours

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/privacy/empirical/replay"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/external"
)

type ReportParams struct {
	Replay     external.Replay `json:"replay"`
	FalseAlarm float64         `json:"false_alarm"`
	// Train is the training. If it names a step command, that command is asked.
	Train external.TrainParams `json:"train"`
}

// ReportAuditor tests the steps of an external training: those that its step command takes for Coalmine, or
// without such a command those that the training itself has replayed. Inputs: "model": external/train, and
// its inputs. Its blob OutcomeBlob is an Outcome.
var ReportAuditor = tasks.Kind{Name: "audits/neighbours-told", Version: 3, Class: tasks.Compute, Command: true, Run: tasks.WithParams(runReport)}

func runReport(ctx context.Context, t *tasks.Task, p *ReportParams) error {
	stepper, err := p.Train.OpenStepper(ctx, t, audits.ModelInput)
	switch {
	case errors.Is(err, external.ErrNoStep):
		return runReplayed(ctx, t, p)
	case err != nil:
		return err
	}
	if !p.Train.Deterministic {
		t.DeclareNondeterministic()
	}
	return external.CommandError(ctx, cmp.Or(runStepped(ctx, t, p, stepper), stepper.Close())) // the first error decides
}

func runReplayed(ctx context.Context, t *tasks.Task, p *ReportParams) error {
	r, err := p.Replay.Replayed(ctx, t, audits.ModelInput)
	if err != nil {
		return err
	}
	return p.test(ctx, t, &r.ReplayClaim, &reported{Replayed: r}, replay.Plan{States: 1, WholeOnly: true})
}

// test observes steps and tests them against the training's claim.
func (p *ReportParams) test(ctx context.Context, t *tasks.Task, c *external.ReplayClaim, step replay.Step, plan replay.Plan) error {
	repeats := p.Replay.Repeats
	claim := replay.Claim{NoiseMultiplier: c.NoiseMultiplier, Sampling: c.Sampling, Population: c.Population, Cohort: c.Cohort}
	plan.Repeats, plan.NoiseMultiplier, plan.Columns = repeats, c.NoiseMultiplier, max(1, maxValues/repeats)
	plan.Progress = func(done int) { t.Progress(tasks.Progress{Done: int64(done), Total: int64(repeats)}) }
	seen, err := replay.Observe(ctx, step, plan)
	if err != nil {
		return err
	}
	recipe := c.Recipe()
	recipe.Unit = cmp.Or(recipe.Unit, "record")
	v := &Outcome{
		Finding: replay.Examine(claim, seen, p.FalseAlarm), Repeats: repeats, Claimed: c.NoiseMultiplier, ClaimedSensitivity: replay.Sensitivity,
		Delta: c.Delta, Unit: recipe.Unit, Neighbouring: c.Sampling.Neighbouring(), Population: c.Population, Reported: plan.WholeOnly,
	}
	if err := v.account(recipe); err != nil {
		return tasks.Permanent(err)
	}
	return t.PutJSON(ctx, OutcomeBlob, v)
}

// reported is a step that a command has replayed.
type reported struct{ *external.Replayed }

func (s *reported) Parts() (list []replay.Part) {
	offset := 0
	for _, p := range s.Replayed.Parts {
		list = append(list, replay.Part{Name: p.Name, Offset: offset, Size: p.Size})
		offset += p.Size
	}
	return list
}

func (s *reported) Counts() bool { return false }

func (s *reported) Begin(_ context.Context, round int) (replay.Round, error) {
	return replay.Round{Members: s.Cohorts[round-1], Inside: true, Outside: true}, nil
}

func (s *reported) Release(_ context.Context, r replay.Replay) (replay.Release, error) {
	values := map[replay.Data][]float32{replay.Whole: s.Whole, replay.Inside: s.Inside, replay.Outside: s.Outside}[r.Data]
	if r.Noise {
		values = s.Noisy
	}
	size := s.Size()
	return replay.Release{Sum: values[(r.Round-1)*size : r.Round*size]}, nil
}

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
	compared   int                       // rounds whose moves with noise were measured
	batch      []int
	inside     int
	outside    int
}

func (s *stepped) Parts() (list []replay.Part) {
	offset := 0
	for _, p := range s.Claim.Parameters {
		size := external.Volume(p.Shape)
		list = append(list, replay.Part{Name: p.Name, Offset: offset, Size: size})
		offset += size
	}
	return list
}

func (s *stepped) Counts() bool { return false }

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
		if err == nil && r.Data == replay.Inside && r.Shrunk && s.compared < comparedRounds {
			s.compared++
			sum, err = s.farther(ctx, request, sum)
		}
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

// comparedRounds is the number of rounds whose moves are also measured in steps with noise.
const comparedRounds = 4

// farther also measures the member's move with noise, because a command may clip only without noise. If the move with
// noise exceeds both 2 clip norms and the move without noise, it takes the place of the latter in the release on
// Inside. The noise of equal seeds cancels; a move that differs by seed still has noise and is ignored.
func (s *stepped) farther(ctx context.Context, inside external.StepRequest, clean []float32) ([]float32, error) {
	whole := inside
	whole.Batch, whole.Without = s.batch, []int{}
	whole.Noise, inside.Noise = true, true
	var moves [2][]float64
	for i, seed := range []uint64{s.seed, s.other} {
		whole.Seed, inside.Seed = seed, seed
		with, err := s.take(ctx, whole)
		if err != nil {
			return nil, err
		}
		without, err := s.take(ctx, inside)
		if err != nil {
			return nil, err
		}
		moves[i] = replay.Subtract(with, without)
	}
	size := floats.Norm(moves[0], 2)
	if size <= max(2, 1.01*floats.Norm(replay.Subtract(s.clean[replay.Whole], clean), 2)) || floats.Distance(moves[0], moves[1], 2) > 0.01*size {
		return clean, nil
	}
	return lists.Make(len(clean), func(k int) float32 { return s.clean[replay.Whole][k] - float32(moves[0][k]) }), nil
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
		return nil, external.StepsByRequest.Errorf("its step of round %d has the same noise by another seed", r.Round)
	}
	for i, v := range clean {
		one[i] = float32(float64(v) + (float64(one[i])-float64(other[i]))/math.Sqrt2)
	}
	return one, nil
}
