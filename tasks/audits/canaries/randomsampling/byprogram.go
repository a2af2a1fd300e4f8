package randomsampling

import (
	"context"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/clientwork"
	"coalmine/tasks/datasets"
)

// rankByProgram ranks canaries as Kind does, by scores of a program.
func rankByProgram(ctx context.Context, t *tasks.Task, p *Params) ([]Rank, error) {
	placed, err := datasets.ReadPlacements(ctx, t, audits.CanariesInput)
	if err != nil {
		return nil, err
	}
	model, err := clientwork.File(t, audits.ModelInput)
	if err != nil {
		return nil, err
	}
	client, vocabulary, err := clientwork.Borrow(ctx, t, p.Program)
	if err != nil {
		return nil, err
	}
	defer client.GiveBack()
	s := &Sequential{Params: p, Canaries: placed, Vocabulary: vocabulary, Score: func(ctx context.Context, prefix []int32, suffixes [][]int32) ([]float64, error) {
		return programCosts(ctx, client, model, prefix, suffixes)
	}}
	return s.rankAll(ctx, t)
}

// programCosts returns the log-perplexities of sequences after a prefix, in nats.
func programCosts(ctx context.Context, client clientprograms.Client, model clientprograms.Model, prefix []int32, suffixes [][]int32) ([]float64, error) {
	pairs := make([]clientprograms.Pair, len(suffixes))
	for i, suffix := range suffixes {
		pairs[i] = clientprograms.Pair{Context: prefix, Continuation: suffix}
	}
	answers, err := client.LogLikelihoods(ctx, model, pairs)
	if err != nil {
		return nil, err
	}
	costs := make([]float64, len(answers))
	for i, a := range answers {
		costs[i] = -a.LogProb
	}
	return costs, nil
}
