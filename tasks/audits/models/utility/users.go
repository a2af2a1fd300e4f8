package utility

import (
	"context"
	"fmt"
	"unicode/utf8"

	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
)

// UserShare is the parameters of a task that measures a model, audits.ModelInput, on each user of a
// share.
type UserShare struct {
	// Share of Shares of the users is measured; shares count from 0.
	Share  int `json:"share"`
	Shares int `json:"shares"`
	// Program, if set, measures a model of its own. The task then needs external.VocabularyInput.
	Program *clientprograms.Program `json:"program,omitempty"`
	// Model, if set, is an external model. The task then needs datasets.PartsInput.
	Model *external.ModelParams `json:"model,omitempty"`
}

// Asks implements clientprograms.Asker.
func (p UserShare) Asks() *clientprograms.Program { return p.Program }

// MeasureUsers measures the users of a share of all users, and puts a JSON array of the results, in the
// order of the users, into a blob.
func MeasureUsers[T any](ctx context.Context, t *tasks.Task, p *UserShare, blob string, users int, measure func(evaluate Evaluator, user int) (T, error)) error {
	evaluate, release, err := p.open(ctx, t)
	if err != nil {
		return err
	}
	defer release()
	first, end := p.Share*users/p.Shares, (p.Share+1)*users/p.Shares
	list := make([]T, 0, end-first)
	for user := first; user < end; user++ {
		measured, err := measure(evaluate, user)
		if err != nil {
			return err
		}
		list = append(list, measured)
		t.Progress(tasks.Progress{Done: int64(user - first + 1), Total: int64(end - first)})
	}
	return t.PutJSON(ctx, blob, list)
}

// open returns the evaluator of the model, and a function that releases the model.
func (p *UserShare) open(ctx context.Context, t *tasks.Task) (evaluate Evaluator, release func(), err error) {
	switch {
	case p.Model != nil:
		return openExternal(ctx, t, p.Model)
	case p.Program != nil:
		evaluate, client, err := programEvaluator(ctx, t, p.Program)
		if err != nil {
			return nil, nil, err
		}
		return evaluate, client.GiveBack, nil
	}
	model, err := checkpoints.Read(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, nil, err
	}
	evaluate, err = evaluatorOf(ctx, t, model, false)
	return evaluate, func() {}, err
}

// shares is the number of tasks that the test part, or the users, are split into. It shows in keys,
// not in results.
const shares = 4

// UserShares adds a task for each share of the users, of the kind scored for an external model and
// else of the kind own, and returns them as inputs. The label has two verbs, for the number of the
// share and the number of shares.
func UserShares(b audits.Builder, own, scored tasks.Kind, label string, name func(share int) string, params func(UserShare) any, inputs []tasks.Input) (parts []tasks.Input) {
	kind, p := own, UserShare{Shares: shares, Program: b.Setting().Program, Model: b.Setting().External}
	if p.Model != nil {
		kind = scored
	}
	for p.Share = range shares {
		node := b.Node(kind, fmt.Sprintf(label, p.Share+1, shares), params(p), audits.ByProgram(b, inputs...)...)
		parts = append(parts, tasks.Input{Name: name(p.Share), Key: node})
	}
	return parts
}

// openExternal returns the evaluator of an external model. It classifies images and scores texts as
// wholes, whose targets are all their words: the hits of texts are not known. Texts that are not UTF-8
// are left out.
func openExternal(ctx context.Context, t *tasks.Task, p *external.ModelParams) (evaluate Evaluator, release func(), err error) {
	var vocabulary *datasets.Vocabulary
	if !p.OfImages() {
		if vocabulary, err = datasets.ReadVocabulary(ctx, t, datasets.PartsInput); err != nil {
			return nil, nil, err
		}
	}
	model, err := p.Open(ctx, t, audits.ModelInput, external.Trained)
	if err != nil {
		return nil, nil, err
	}
	if p.OfImages() {
		return classifiedBy(ctx, model, p.Image), model.Close, nil
	}
	return scoredBy(ctx, model, vocabulary), model.Close, nil
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
