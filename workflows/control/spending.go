package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/reports"
	"coalmine/workflows/runs/availability"
)

// Spending is the privacy cost of a cell's training, as its server counted it
// round by round.
type Spending struct {
	Cell         string               `json:"cell"`
	Delta        float64              `json:"delta"`
	Sampling     privacy.Sampling     `json:"sampling"`
	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Conversion   privacy.Conversion   `json:"conversion"`
	Unit         string               `json:"unit"`
	// Budget is the budget that ends the training; nil if there is none.
	Budget *privacy.Budget `json:"budget,omitempty"`
	// Grounds are empty before the population is known.
	privacy.Grounds
	// Rounds lists some finished rounds, ascending, including the last; nil if the
	// training adds no noise.
	Rounds []SpentRound `json:"rounds"`
}

// SpentRound is the cost up to a round, in both conventions; null if infinite.
type SpentRound struct {
	Round         int             `json:"round"`
	Epsilon       privacy.Epsilon `json:"epsilon"`
	EpsilonProved privacy.Epsilon `json:"epsilon_proved"`
}

// Reports returns the rounds as reports of the accountant, for privacy.EpsilonFigure.
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

// Maximum numbers of rounds that are read and returned: enough for a curve.
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
	s := Spending{Cell: x.cell.Name, Rounds: []SpentRound{}, Grounds: privacy.Grounds{Assumptions: []string{}, NotCovered: []string{}}}
	if err := x.run.Readable("the privacy cost"); err != nil {
		return Spending{}, err
	}
	training := &x.experiment.Training
	if training.Privacy == nil || training.Privacy.NoiseMultiplier == 0 || x.cell.Chain == nil {
		return s, nil
	}
	s.Delta, s.Sampling = training.Privacy.Delta, training.Sampling
	s.Neighbouring, s.Conversion = s.Sampling.Neighbouring(), cmp.Or(training.Privacy.Accounting(), privacy.Classic)
	s.Unit = x.experiment.Unit()
	if err := l.addGrounds(ctx, x, &s); err != nil {
		return s, fmt.Errorf("run %s, cell %s: %w", x.run.ID, s.Cell, err)
	}
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

// addGrounds adds the assumptions of the numbers, and their range.
func (l *Local) addGrounds(ctx context.Context, x *exporter, s *Spending) error {
	report := x.plan.Nodes[x.cell.Report.Key]
	var params reports.CellParams
	if err := json.Unmarshal(report.Params, &params); err != nil {
		return fmt.Errorf("parameters of its report: %w", err)
	}
	s.Budget = params.Training.Budget
	commit, err := l.archive.Committed(ctx, report.Input(reports.PopulationInput))
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	var population datasets.PartitionMetrics
	if err := json.Unmarshal(commit.Metrics, &population); err != nil {
		return fmt.Errorf("metrics of its population: %w: %w", storage.ErrCorrupt, err)
	}
	s.Grounds, err = privacy.GroundsOf(params.Training.Recipe(&population.Counts))
	return err
}
