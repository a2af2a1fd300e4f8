package results

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/reports"
	"coalmine/workflows/availability"
	"coalmine/workflows/plan"
)

// The losses along a training are metrics of its curve, in nats a token over all targets:
// the training loss is the mean over the round (of central training the task that ends
// there), before each of its steps; the validation loss is that of early stopping, the
// test loss that of the utility audit.
const (
	trainingLoss   = "training_loss"
	validationLoss = "validation_loss"
	testLoss       = "test_loss"
)

// lossCurves stand in one figure.
var lossCurves = []audits.Curve{
	{Figure: "Loss", Name: "training", Metric: trainingLoss},
	{Figure: "Loss", Name: "test", Metric: testLoss},
	{Figure: "Loss", Name: "validation", Metric: validationLoss},
}

// addLosses sets the losses of a training that was measured more than once.
func addLosses(ctx context.Context, archive *storage.Archive, planned *plan.Cell, r *reports.Report) error {
	if len(r.Curve) < 2 {
		return nil
	}
	for i := range r.Curve {
		p := &r.Curve[i]
		row, err := rowAt(ctx, archive, planned, p.Round)
		if err != nil {
			return err
		}
		if i == len(r.Curve)-1 && r.Stopping != nil { // another model than the last step's
			row = &checkpoints.Row{Validation: checkpoints.Validation{ValidationLoss: r.Stopping.ValidationLoss}}
		}
		if err := setLosses(p, row); err != nil {
			return err
		}
	}
	return nil
}

// rowAt is the metric row of the task that ends at a round, nil where it has gone.
func rowAt(ctx context.Context, archive *storage.Archive, planned *plan.Cell, round int) (*checkpoints.Row, error) {
	if planned.Tail.Rounds == 0 || round < planned.Rounds() {
		return availability.StepRow(ctx, archive, planned.Chain, round/planned.Chain.StepRounds)
	}
	rows, err := availability.TailRows(ctx, archive, planned.Tail.Node.Key)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[len(rows)-1], nil
}

func setLosses(p *reports.Point, row *checkpoints.Row) (err error) {
	set := func(name string, loss float64) {
		if loss > 0 {
			err = errors.Join(err, p.Metrics.Set(name, loss))
		}
	}
	if row != nil {
		set(trainingLoss, row.Loss)
		set(validationLoss, row.ValidationLoss)
	}
	var utility struct {
		AllTargets struct {
			Perplexity float64 `json:"perplexity"`
		} `json:"all_targets"`
	}
	if p.Utility != nil {
		err = errors.Join(err, json.Unmarshal(p.Utility, &utility))
	}
	set(testLoss, math.Log(max(1, utility.AllTargets.Perplexity)))
	return err
}

// mostLoss is the largest loss along the training.
func mostLoss(curve []reports.Point) float64 {
	most := 0.0
	for i := range curve {
		for _, c := range lossCurves {
			loss, _ := curve[i].Metric(c.Metric)
			most = max(most, loss)
		}
	}
	return most
}
