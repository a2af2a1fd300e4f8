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

// ByScores calls measure with the evaluator of a model that is not ours, that of audits.ModelInput. It
// classifies images, and scores texts as wholes, whose targets are all their words: nobody says how many
// the model guessed. Texts that are no UTF-8 it leaves out. partsInput is datasets/encode,
// which is read for texts alone.
func ByScores(ctx context.Context, t *tasks.Task, p *external.ModelParams, partsInput string, measure func(Evaluator) error) error {
	var vocabulary *datasets.Vocabulary
	var err error
	if !p.OfImages() {
		if vocabulary, err = datasets.ReadVocabulary(ctx, t, partsInput); err != nil {
			return err
		}
	}
	model, err := p.Open(ctx, t, audits.ModelInput, external.Trained)
	if err != nil {
		return err
	}
	defer model.Close()
	if p.OfImages() {
		return measure(classifiedBy(ctx, model, p.Image))
	}
	return measure(scoredBy(ctx, model, vocabulary))
}

// scoredBy tallies whole texts.
func scoredBy(ctx context.Context, model *external.Model, v *datasets.Vocabulary) Evaluator {
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
			if before := likelier(c.LogProbs, c.Label); before == 0 {
				tally.Hits++
				tally.TopHits++
			} else if before < models.TopGuesses {
				tally.TopHits++
			}
		}
		return models.Evaluation{Counted: tally, All: tally}, err
	}
}
