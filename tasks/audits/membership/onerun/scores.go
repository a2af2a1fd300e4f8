package onerun

import (
	"context"
	"fmt"
	"slices"

	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
)

// scores returns the log-probabilities of canaries, as whole sequences after Begin and in nats, under the
// trained model, minus those under the initial model unless plain.
func (p *BoundParams) scores(ctx context.Context, t *tasks.Task, list []datasets.Canary) ([]float64, error) {
	sequences := make([][]int32, len(list))
	for i, c := range list {
		sequences[i] = c.Tokens
	}
	inputs := map[external.Which]string{external.Trained: audits.ModelInput, external.Initial: InitialInput}
	switch {
	case p.Model != nil:
		vocabulary, err := datasets.ReadVocabulary(ctx, t, datasets.PartsInput)
		if err != nil {
			return nil, err
		}
		return p.compared(func(which external.Which) ([]float64, error) {
			model, err := p.Model.Open(ctx, t, audits.ModelInput, which)
			if err != nil {
				return nil, err
			}
			defer model.Close()
			return model.Costs(ctx, vocabulary, nil, sequences)
		})
	case p.Program != nil:
		client, _, err := external.BorrowClient(ctx, t, p.Program)
		if err != nil {
			return nil, err
		}
		defer client.GiveBack()
		return p.compared(func(which external.Which) ([]float64, error) {
			return external.ClientCosts(ctx, t, client, inputs[which], nil, sequences)
		})
	}
	return p.compared(func(which external.Which) ([]float64, error) { return ownCosts(ctx, t, inputs[which], sequences) })
}

// compared turns log-perplexities into scores.
func (p *BoundParams) compared(costs func(external.Which) ([]float64, error)) ([]float64, error) {
	trained, err := costs(external.Trained)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(trained))
	if !p.Plain {
		if scores, err = costs(external.Initial); err != nil {
			return nil, err
		}
	}
	for i, cost := range trained {
		scores[i] -= cost
	}
	return scores, nil
}

// sequenceBlock is the number of sequences that are scored together. It does not affect results.
const sequenceBlock = 192

// ownCosts scores by the checkpoint of an input.
func ownCosts(ctx context.Context, t *tasks.Task, input string, sequences [][]int32) ([]float64, error) {
	scorer, err := checkpoints.ReadScorer(ctx, t, input)
	if err != nil {
		return nil, err
	}
	var out []float64
	for block := range slices.Chunk(sequences, sequenceBlock) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		costs, err := blockCosts(scorer, block)
		if err != nil {
			return nil, tasks.Permanent(fmt.Errorf("%s: %w", input, err))
		}
		out = append(out, costs...)
	}
	return out, nil
}

func blockCosts(scorer *models.Scorer, block [][]int32) ([]float64, error) {
	sums, logProbs := make([]float64, len(block)), make([]float32, len(block))
	states, words := scorer.Start(len(block)), slices.Repeat([]int32{datasets.Begin}, len(block))
	for position := range block[0] {
		if err := scorer.Step(states, words); err != nil {
			return nil, err
		}
		for i, tokens := range block {
			words[i] = tokens[position]
		}
		if err := scorer.LogProbs(states, words, logProbs); err != nil {
			return nil, err
		}
		for i, l := range logProbs {
			sums[i] += audits.Surprisal(l)
		}
	}
	for _, sum := range sums {
		if !numbers.IsFinite(sum) {
			return nil, &models.DivergedError{What: "log-perplexity of a canary", Value: sum}
		}
	}
	return sums, nil
}
