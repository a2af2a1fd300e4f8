package aggregation

import (
	"context"
	"encoding/json"
	"fmt"

	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
)

// PopulationInput of aggregation/server is the datasets/partition node that
// cohorts are drawn from. It is there with a Guarantee only.
const PopulationInput = "population"

// Guarantee makes the server say in every metric row what the rounds so far
// have cost.
type Guarantee struct {
	Sampling privacy.Sampling `json:"sampling"`
	Delta    float64          `json:"delta"`
	// Conversion is empty for the classic one.
	Conversion privacy.Conversion `json:"conversion,omitempty"`
	// Budget, where there is one, ends the training: a round that would pass it
	// leaves the model as it was.
	Budget *privacy.Budget `json:"budget,omitempty"`
}

// ledger is the privacy account of one round.
type ledger struct {
	guarantee *Guarantee
	meter     *privacy.Meter
}

// openLedger prepares the account, the costly part of it once for all rounds
// of a worker. It is nil where no guarantee is claimed.
func openLedger(ctx context.Context, t *tasks.Task, p *ServerParams) (*ledger, error) {
	if p.Guarantee == nil {
		return nil, nil
	}
	population, err := t.Input(PopulationInput)
	if err != nil {
		return nil, err
	}
	var counts datasets.PartitionMetrics
	if err := t.InputMetrics(ctx, PopulationInput, &counts); err != nil {
		return nil, err
	}
	recipe := privacy.Recipe{
		Population:      counts.Users,
		Cohort:          p.Cohort,
		NoiseMultiplier: p.NoiseMultiplier,
		Delta:           p.Guarantee.Delta,
		Sampling:        p.Guarantee.Sampling,
		Conversion:      p.Guarantee.Conversion,
		ClipQuantile:    p.Adaptive,
	}
	name, err := json.Marshal(recipe)
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	meter, err := tasks.Memoize(t, population, "meter "+string(name), func() (*privacy.Meter, int64, error) {
		m, err := privacy.NewMeter(recipe)
		return m, meterBytes, tasks.Permanent(err)
	})
	if err != nil {
		return nil, fmt.Errorf("privacy account: %w", err)
	}
	return &ledger{p.Guarantee, meter}, nil
}

// meterBytes is about the size of a meter: two curves of a few hundred orders.
const meterBytes = 16 << 10

// allows reports whether a round stays within the budget.
func (l *ledger) allows(round int) bool {
	return l == nil || l.guarantee.Budget == nil || l.guarantee.Budget.Allows(l.meter, round)
}

// charge writes into a row what the rounds up to its own have cost. Where the
// budget has ended the training, that is what the allowed ones have.
func (l *ledger) charge(row *checkpoints.Row) {
	if l == nil {
		return
	}
	rounds := int(row.Round)
	if row.Stopped {
		rounds = min(rounds, l.guarantee.Budget.RoundsWithin(l.meter))
	}
	cost := l.meter.After(rounds)
	if row.EpsilonInfinite = cost.Infinite; !cost.Infinite {
		row.Epsilon, row.EpsilonProved = float64(cost.Epsilon), float64(cost.EpsilonProved)
	}
}
