package oneshot

import (
	"cmp"
	"context"
	"fmt"

	"coalmine/internal/kernels"
	"coalmine/privacy"
	"coalmine/privacy/oneshot"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaryclients"
	"coalmine/tasks/checkpoints"
)

// EstimateParams are the parameters of audits/one-shot.
type EstimateParams struct {
	Seed uint64 `json:"seed"`
	// Canaries are those of the clients in the training.
	Canaries int `json:"canaries"`
	// Final asks for the estimate from the last model.
	Final bool `json:"final,omitempty"`
	// Watch asks for the estimate from all rounds, which the server has followed; nil does not.
	Watch *canaryclients.Watch `json:"watch,omitempty"`
	Delta float64              `json:"delta"`
	// Unit is what a canary client is one of, to be printed.
	Unit string `json:"unit"`
	// Neighbouring is the change that an estimate is about, to be printed; empty for
	// privacy.AddOrRemoveOne.
	Neighbouring privacy.Neighbouring `json:"neighbouring,omitempty"`
}

// Estimator estimates epsilon from the cosines of canaries with what was released.
//
// Inputs: "model": the trained checkpoint, with what the server has followed; "initial": the
// one before training. Its blob OutcomeBlob is an Outcome.
var Estimator = tasks.Kind{Name: "audits/one-shot", Version: 1, Class: tasks.Compute, Run: runEstimator}

// InitialInput is that of Estimator beside audits.ModelInput.
const InitialInput = "initial"

// OutcomeBlob is an Outcome, as JSON.
const OutcomeBlob = "one-shot"

func runEstimator(ctx context.Context, t *tasks.Task) error {
	var p EstimateParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	change, err := readChange(ctx, t)
	if err != nil {
		return err
	}
	v := Outcome{
		Canaries: p.Canaries, Dimension: len(change), Delta: p.Delta, Neighbouring: cmp.Or(p.Neighbouring, privacy.AddOrRemoveOne), Unit: p.Unit,
		Clients: make([]Client, p.Canaries),
	}
	if p.Final {
		err = v.judgeFinal(canaryclients.Directions{Seed: p.Seed}.Cosines(change, 0, p.Canaries))
	}
	if err == nil && p.Watch != nil {
		err = v.readAll(ctx, t, p.Watch)
	}
	if err != nil {
		return err
	}
	return t.PutJSON(ctx, OutcomeBlob, v)
}

// readChange is the last model less the initial one, of the parameters that clients train.
func readChange(ctx context.Context, t *tasks.Task) ([]float32, error) {
	before, err := checkpoints.ReadTrained(ctx, t, InitialInput)
	if err != nil {
		return nil, err
	}
	after, err := checkpoints.ReadTrained(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, err
	}
	if len(before.Params) != len(after.Params) {
		return nil, tasks.Permanent(fmt.Errorf("a model of %d trained parameters began with %d; expected equally many", len(after.Params), len(before.Params)))
	}
	change := append([]float32(nil), after.Params...)
	kernels.Axpy(-1, before.Params, change)
	return change, nil
}

// judgeFinal estimates from the cosines with the change of the model.
func (v *Outcome) judgeFinal(cosines []float64) error {
	e, err := oneshot.Final(cosines, v.Dimension, v.Delta)
	if err != nil {
		return tasks.Permanent(fmt.Errorf("the change of the model: %w", err))
	}
	v.Final = &e
	for i := range cosines {
		v.Clients[i].Seen, v.Clients[i].FinalCosine = true, &cosines[i]
	}
	return nil
}

// readAll estimates from the largest cosines with the updates of all rounds.
func (v *Outcome) readAll(ctx context.Context, t *tasks.Task, w *canaryclients.Watch) error {
	followed, err := w.Read(ctx, t, audits.ModelInput)
	if err != nil {
		return err
	}
	largest := make([]float64, len(followed))
	for i, c := range followed {
		largest[i] = float64(c)
	}
	return v.judgeAll(largest[:w.Canaries], largest[w.Canaries:])
}

// judgeAll estimates from the largest cosines of canaries and of unseen directions.
func (v *Outcome) judgeAll(seen, unseen []float64) error {
	e, err := oneshot.AllIterates(seen, unseen, v.Delta)
	if err != nil {
		return tasks.Permanent(fmt.Errorf("the updates of all rounds: %w", err))
	}
	v.AllIterates, v.Unseen = &e, len(unseen)
	v.Clients = append(v.Clients, make([]Client, len(unseen))...)
	for i := range seen {
		v.Clients[i].Seen, v.Clients[i].LargestCosine = true, &seen[i]
	}
	for i := range unseen {
		v.Clients[len(seen)+i].LargestCosine = &unseen[i]
	}
	return nil
}
