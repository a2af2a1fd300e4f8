package neighbours

import (
	"cmp"
	"context"
	"errors"

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
var ReportAuditor = tasks.Kind{Name: "audits/neighbours-told", Version: 2, Class: tasks.Compute, Command: true, Run: tasks.WithParams(runReport)}

func runReport(ctx context.Context, t *tasks.Task, p *ReportParams) error {
	stepper, err := p.Train.OpenStepper(ctx, t, audits.ModelInput)
	switch {
	case errors.Is(err, external.ErrNoStep):
		return runReplayed(ctx, t, p)
	case err != nil:
		return err
	}
	if !p.Train.Deterministic {
		t.MayDiffer()
	}
	return external.Asked(ctx, errors.Join(runStepped(ctx, t, p, stepper), stepper.Close()))
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

// Parts implements replay.Step.
func (s *reported) Parts() (list []replay.Part) {
	offset := 0
	for _, p := range s.Replayed.Parts {
		list = append(list, replay.Part{Name: p.Name, Offset: offset, Size: p.Size})
		offset += p.Size
	}
	return list
}

// Counts implements replay.Step.
func (s *reported) Counts() bool { return false }

// Begin implements replay.Step.
func (s *reported) Begin(_ context.Context, round int) (replay.Round, error) {
	return replay.Round{Members: s.Cohorts[round-1], Inside: true, Outside: true}, nil
}

// Release implements replay.Step.
func (s *reported) Release(_ context.Context, r replay.Replay) (replay.Release, error) {
	values := map[replay.Data][]float32{replay.Whole: s.Whole, replay.Inside: s.Inside, replay.Outside: s.Outside}[r.Data]
	if r.Noise {
		values = s.Noisy
	}
	size := s.Size()
	return replay.Release{Sum: values[(r.Round-1)*size : r.Round*size]}, nil
}
