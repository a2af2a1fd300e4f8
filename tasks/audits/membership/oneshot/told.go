package oneshot

import (
	"cmp"
	"context"

	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/external"
)

// ToldParams are the parameters of audits/one-shot-told.
type ToldParams struct {
	// OneShot is what the training was asked for.
	OneShot external.OneShot `json:"one_shot"`
	Delta   float64          `json:"delta"`
}

// ToldEstimator estimates epsilon from cosines that a training which is not ours has told. Its
// input is "model": external/train. Its blob OutcomeBlob is an Outcome.
var ToldEstimator = tasks.Kind{Name: "audits/one-shot-told", Version: 1, Class: tasks.Compute, Run: runToldEstimator}

// aUser is the unit of a command that names none.
const aUser = "user"

func runToldEstimator(ctx context.Context, t *tasks.Task) error {
	var p ToldParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	told, err := p.OneShot.Cosines(ctx, t, audits.ModelInput)
	if err != nil {
		return err
	}
	v := Outcome{
		Canaries: p.OneShot.Canaries, Dimension: told.Dimension, Delta: p.Delta, Neighbouring: privacy.AddOrRemoveOne,
		Unit: cmp.Or(told.Unit, aUser), Told: true, Clients: make([]Client, p.OneShot.Canaries),
	}
	if p.OneShot.Final {
		err = v.judgeFinal(told.Final)
	}
	if err == nil && p.OneShot.Unseen > 0 {
		err = v.judgeAll(told.Largest, told.Unseen)
	}
	if err != nil {
		return err
	}
	return t.PutJSON(ctx, OutcomeBlob, v)
}
