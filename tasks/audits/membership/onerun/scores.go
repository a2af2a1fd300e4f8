package onerun

import (
	"context"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
)

// scores returns the scores of canaries: their log-probabilities, as whole sequences after Begin alone and in
// nats, under the trained model, less those under the initial model unless plain.
func (p *BoundParams) scores(ctx context.Context, t *tasks.Task, list []datasets.Canary) (scores []float64, err error) {
	switch {
	case p.Model != nil:
		return p.externalScores(ctx, t, list)
	case p.Program != nil:
		return p.programScores(ctx, t, list)
	}
	return differences(
		func() ([]float64, error) { return ownLogProbs(ctx, t, audits.ModelInput, list) },
		func() ([]float64, error) { return ownLogProbs(ctx, t, InitialInput, list) },
	)
}

// differences are log-probabilities under the trained model less those under the initial one.
func differences(trained, initial func() ([]float64, error)) ([]float64, error) {
	scores, err := trained()
	if err != nil {
		return nil, err
	}
	before, err := initial()
	if err != nil {
		return nil, err
	}
	for i := range scores {
		scores[i] -= before[i]
	}
	return scores, nil
}

// externalScores scores by external models.
func (p *BoundParams) externalScores(ctx context.Context, t *tasks.Task, list []datasets.Canary) ([]float64, error) {
	vocabulary, err := datasets.ReadVocabulary(ctx, t, datasets.PartsInput)
	if err != nil {
		return nil, err
	}
	pairs := make([]score.Pair, len(list))
	for i, c := range list {
		pairs[i] = external.PairOf(vocabulary, nil, c.Tokens)
	}
	by := func(which external.Which) func() ([]float64, error) {
		return func() ([]float64, error) {
			model, err := p.Model.Open(ctx, t, audits.ModelInput, which)
			if err != nil {
				return nil, err
			}
			defer model.Close()
			answers, err := model.Answers(ctx, pairs)
			logProbs := make([]float64, len(answers))
			for i, a := range answers {
				logProbs[i] = a.LogProb
			}
			return logProbs, err
		}
	}
	if p.Plain {
		return by(external.Trained)()
	}
	return differences(by(external.Trained), by(external.Initial))
}

// programScores scores by a client's program, which is asked about both models.
func (p *BoundParams) programScores(ctx context.Context, t *tasks.Task, list []datasets.Canary) ([]float64, error) {
	client, _, err := external.BorrowClient(ctx, t, p.Program)
	if err != nil {
		return nil, err
	}
	defer client.GiveBack()
	pairs := make([]clientprograms.Pair, len(list))
	for i, c := range list {
		pairs[i].Continuation = c.Tokens
	}
	by := func(input string) func() ([]float64, error) {
		return func() ([]float64, error) {
			model, err := external.ClientModel(t, input)
			if err != nil {
				return nil, err
			}
			likelihoods, err := client.LogLikelihoods(ctx, model, pairs)
			logProbs := make([]float64, len(likelihoods))
			for i, l := range likelihoods {
				logProbs[i] = l.LogProb
			}
			return logProbs, err
		}
	}
	return differences(by(audits.ModelInput), by(InitialInput))
}

// canaryBlock is how many canaries are scored together. It shows in no result: a
// state's numbers do not depend on its neighbours.
const canaryBlock = 192

// ownLogProbs scores by the checkpoint of an input.
func ownLogProbs(ctx context.Context, t *tasks.Task, input string, list []datasets.Canary) ([]float64, error) {
	scorer, err := checkpoints.ReadScorer(ctx, t, input)
	if err != nil {
		return nil, err
	}
	var out []float64
	for len(list) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		block := list[:min(canaryBlock, len(list))]
		list = list[len(block):]
		logProbs, err := blockLogProbs(scorer, block)
		if err != nil {
			return nil, tasks.Permanent(fmt.Errorf("%s: %w", input, err))
		}
		out = append(out, logProbs...)
	}
	return out, nil
}

// blockLogProbs scores canaries of one length.
func blockLogProbs(scorer *models.Scorer, block []datasets.Canary) ([]float64, error) {
	sums, logProbs := make([]float64, len(block)), make([]float32, len(block))
	states, words := scorer.Start(len(block)), slices.Repeat([]int32{datasets.Begin}, len(block))
	for position := range block[0].Tokens {
		if err := scorer.Step(states, words); err != nil {
			return nil, err
		}
		for i, c := range block {
			words[i] = c.Tokens[position]
		}
		if err := scorer.LogProbs(states, words, logProbs); err != nil {
			return nil, err
		}
		for i, l := range logProbs {
			sums[i] -= audits.Surprisal(l)
		}
	}
	for _, sum := range sums {
		if math.IsNaN(sum) || math.IsInf(sum, 0) {
			return nil, &models.DivergedError{What: "log-perplexity of a canary", Value: -sum}
		}
	}
	return sums, nil
}
