package onerun

import (
	"context"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
)

// byProgram scores canaries as lossDifferences does, by a program that is asked about both models.
func (p *BoundParams) byProgram(ctx context.Context, t *tasks.Task, list []datasets.Canary) ([]float64, error) {
	client, _, err := external.BorrowClient(ctx, t, p.Program)
	if err != nil {
		return nil, err
	}
	defer client.GiveBack()
	pairs := make([]clientprograms.Pair, len(list))
	for i, c := range list {
		pairs[i].Continuation = c.Tokens
	}
	trained, err := likelihoods(ctx, t, client, audits.ModelInput, pairs)
	if err != nil {
		return nil, err
	}
	initial, err := likelihoods(ctx, t, client, InitialInput, pairs)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(list))
	for i := range scores {
		scores[i] = trained[i].LogProb - initial[i].LogProb
	}
	return scores, nil
}

// likelihoods are those of pairs under the checkpoint of an input.
func likelihoods(ctx context.Context, t *tasks.Task, client clientprograms.Client, input string, pairs []clientprograms.Pair) ([]clientprograms.Likelihood, error) {
	model, err := external.ClientModel(t, input)
	if err != nil {
		return nil, err
	}
	return client.LogLikelihoods(ctx, model, pairs)
}
