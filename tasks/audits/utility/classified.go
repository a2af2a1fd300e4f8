package utility

import (
	"context"
	"unicode/utf8"

	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
)

// runClassified has a model that is not ours predict the labels of the test part.
func runClassified(ctx context.Context, t *tasks.Task, p *ScoredParams) error {
	model, err := p.Model.Open(ctx, t, audits.ModelInput, external.Trained)
	if err != nil {
		return err
	}
	defer model.Close()
	all := PartParams{Data: datasets.Test, Shares: 1}
	total, err := all.evaluate(ctx, t, classifiedBy(ctx, model, p.Model.Image))
	if err != nil {
		return err
	}
	return t.SetMetrics(total)
}

// ScoredEvaluator is that of a model that is not ours: it classifies images, and scores texts as
// wholes, whose targets are their words. Texts that are no UTF-8 it leaves out.
func ScoredEvaluator(ctx context.Context, model *external.Model, p *external.ModelParams, v *datasets.Vocabulary) Evaluator {
	if p.OfImages() {
		return classifiedBy(ctx, model, p.Image)
	}
	return func(sentences [][]int32) (models.Evaluation, error) {
		var total models.Tally
		var pairs []score.Pair
		for _, s := range sentences {
			words := external.Words(s)
			if pair := external.PairOf(v, nil, words); utf8.ValidString(pair.Continuation) {
				pairs = append(pairs, pair)
				total.Tokens += int64(len(words))
			}
		}
		answers, err := model.Answers(ctx, pairs)
		for _, a := range answers {
			total.Loss -= a.LogProb
		}
		return models.Evaluation{All: total}, err
	}
}

// classifiedBy tallies the labels of images, of those that have one.
func classifiedBy(ctx context.Context, model *external.Model, image datasets.Image) Evaluator {
	return func(examples [][]int32) (models.Evaluation, error) {
		found, err := model.Classify(ctx, image, examples)
		var tally models.Tally
		for _, c := range found {
			tally.Tokens++
			tally.Loss -= c.LogProbs[c.Label]
			if first(c.LogProbs) == c.Label {
				tally.Hits++
			}
		}
		return models.Evaluation{Counted: tally, All: tally}, err
	}
}

// first is the most probable class, of equals the lowest.
func first(logProbs []float64) (class int) {
	for i, p := range logProbs {
		if p > logProbs[class] {
			class = i
		}
	}
	return class
}
