package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"

	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/reports"
	"coalmine/workflows/plan"
)

// Spending is what the training of a cell has cost in privacy, as its server
// counted round by round.
type Spending struct {
	Cell         string               `json:"cell"`
	Delta        float64              `json:"delta"`
	Sampling     privacy.Sampling     `json:"sampling"`
	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Conversion   privacy.Conversion   `json:"conversion"`
	Unit         string               `json:"unit"`
	// Rounds are some of those that have run, ascending, the last among them; none
	// where the training adds no noise.
	Rounds []SpentRound `json:"rounds"`
}

// SpentRound is the cost up to a round, in both conventions; infinite is null.
type SpentRound struct {
	Round         int             `json:"round"`
	Epsilon       privacy.Epsilon `json:"epsilon"`
	EpsilonProved privacy.Epsilon `json:"epsilon_proved"`
}

// Reports are the rounds as the accountant's reports, for privacy.WriteSVG.
func (s *Spending) Reports() []privacy.Report {
	var out []privacy.Report
	for _, r := range s.Rounds {
		out = append(out, privacy.Report{
			Rounds: r.Round, Epsilon: r.Epsilon, EpsilonProved: r.EpsilonProved, Delta: s.Delta,
			Sampling: s.Sampling, Neighbouring: s.Neighbouring, Conversion: s.Conversion, Unit: s.Unit,
		})
	}
	return out
}

// How much of a long training is read and told: enough for a curve.
const (
	spendingSegments = 20
	spendingRounds   = 200
)

// Spending implements API.
func (l *Local) Spending(ctx context.Context, name, cell string) (Spending, error) {
	x, err := l.exporter(ctx, name, cell)
	if err != nil {
		return Spending{}, err
	}
	s := Spending{Cell: x.cell.Name, Rounds: []SpentRound{}}
	training := &x.experiment.Training
	if training.Privacy == nil || training.Privacy.NoiseMultiplier == 0 || x.cell.Chain == nil {
		return s, nil
	}
	s.Delta, s.Sampling = training.Privacy.Delta, training.Sampling
	s.Neighbouring, s.Conversion = s.Sampling.Neighbouring(), cmp.Or(training.Privacy.Accounting(), privacy.Classic)
	s.Unit = reports.Unit(x.experiment.Data.Partition)
	rows, err := l.someRows(ctx, x.cell.Chain)
	if err != nil {
		return s, fmt.Errorf("run %s, cell %s: %w", x.run.ID, s.Cell, err)
	}
	stride := (len(rows) + spendingRounds - 1) / spendingRounds
	for i, row := range rows {
		if i%stride == 0 || i == len(rows)-1 {
			s.Rounds = append(s.Rounds, SpentRound{int(row.Round), privacy.Epsilon(row.Epsilon), privacy.Epsilon(row.EpsilonProved)})
		}
	}
	return s, nil
}

// someRows are metric rows of a chain: those of some whole segments, and of the
// open one.
func (l *Local) someRows(ctx context.Context, chain *plan.Chain) ([]checkpoints.Row, error) {
	done, err := l.lastStep(ctx, chain)
	if err != nil || done == 0 {
		return nil, err
	}
	whole := plan.Segment(done)
	stride := max(1, (whole+spendingSegments-1)/spendingSegments)
	var rows []checkpoints.Row
	for i := 1; i <= whole; i++ {
		if i%stride != 0 && i != 1 && i != whole {
			continue
		}
		segment, err := readRows(ctx, l, chain.Key(i*tasks.SegmentSteps), tasks.SegmentBlob, checkpoints.DecodeSegment)
		if err != nil {
			return nil, err
		}
		rows = append(rows, segment...)
	}
	if plan.Boundary(done) {
		return rows, nil
	}
	open, err := readRows(ctx, l, chain.Key(done), tasks.RowsBlob, checkpoints.DecodeRows)
	return append(rows, open...), err
}

// readRows reads the rows of a step; there are none where its record has gone.
func readRows(ctx context.Context, l *Local, key storage.Key, blob string, decode func([]byte) ([]checkpoints.Row, error)) ([]checkpoints.Row, error) {
	data, err := l.readBlob(ctx, key, blob)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decode(data)
}

// lastStep is the step that a chain has reached. Boundaries last, and the steps
// of the open segment while it is open, so that both can be bisected.
func (l *Local) lastStep(ctx context.Context, chain *plan.Chain) (int, error) {
	var failed error
	missing := func(step int) bool {
		_, err := l.archive.Committed(ctx, chain.Key(step))
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			failed = err
		}
		return err != nil
	}
	if !missing(chain.Steps) {
		return chain.Steps, failed
	}
	whole := sort.Search(plan.Segment(chain.Steps), func(i int) bool { return missing((i + 1) * tasks.SegmentSteps) })
	from := whole * tasks.SegmentSteps
	open := sort.Search(min(tasks.SegmentSteps-1, chain.Steps-from), func(i int) bool { return missing(from + i + 1) })
	return from + open, failed
}
