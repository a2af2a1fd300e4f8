package control

import (
	"cmp"
	"context"
	"fmt"

	"coalmine/privacy"
	"coalmine/workflows/availability"
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
	s.Unit = x.experiment.Unit()
	rows, err := availability.Rows(ctx, l.archive, x.cell.Chain, spendingSegments)
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
