package neighbours

import (
	"cmp"
	"context"

	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/external"
)

type ReportParams struct {
	Replay     external.Replay `json:"replay"`
	FalseAlarm float64         `json:"false_alarm"`
}

// ReportAuditor tests the steps that an external training has replayed. Its input is "model":
// external/train. Its blob OutcomeBlob is an Outcome.
var ReportAuditor = tasks.Kind{Name: "audits/neighbours-told", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runReport)}

func runReport(ctx context.Context, t *tasks.Task, p *ReportParams) error {
	r, err := p.Replay.Replayed(ctx, t, audits.ModelInput)
	if err != nil {
		return err
	}
	claim := replay.Claim{NoiseMultiplier: r.NoiseMultiplier, Sensitivity: 1, Sampling: r.Sampling, Population: r.Population, Cohort: r.Cohort}
	seen, err := replay.Observe(ctx, &reported{Replayed: r}, replay.Plan{
		Repeats: p.Replay.Repeats, States: 1, WholeOnly: true, NoiseMultiplier: r.NoiseMultiplier, Columns: max(1, mostValues/p.Replay.Repeats),
	})
	if err != nil {
		return err
	}
	v := &Outcome{
		Finding: replay.Examine(claim, seen, p.FalseAlarm), Repeats: p.Replay.Repeats, Claimed: r.NoiseMultiplier, ClaimedSensitivity: claim.Sensitivity,
		Delta: r.Delta, Unit: cmp.Or(r.Unit, "record"), Neighbouring: r.Sampling.Neighbouring(), Population: r.Population, Reported: true,
	}
	if err := v.account(privacy.Recipe{Cohort: r.Cohort, Rounds: r.Rounds, NoiseMultiplier: r.NoiseMultiplier, Delta: r.Delta, Sampling: r.Sampling, Unit: v.Unit}); err != nil {
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
