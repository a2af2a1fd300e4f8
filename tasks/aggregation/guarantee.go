package aggregation

import (
	"context"

	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/tasks/training"
)

// PopulationInput of aggregation/server is the datasets/partition node that cohorts are drawn from.
// It is present only with a Guarantee.
const PopulationInput = "population"

// openLedger prepares the account; nil without a guarantee.
func openLedger(ctx context.Context, t *tasks.Task, p *ServerParams) (*training.Ledger, error) {
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
	return training.OpenLedger(t, population, p.Guarantee, privacy.Recipe{
		Population: counts.Users, Cohort: p.Cohort, NoiseMultiplier: p.NoiseMultiplier, ClipQuantile: p.Adaptive, Mechanism: p.Mechanism, NoiseBy: p.NoiseBy,
	})
}
