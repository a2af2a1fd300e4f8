// Package utility measures the utility of a model on the test part, which is not in the training
// and has no canaries:
//
//	evaluation/part         tallies over one share of the test part
//	evaluation/frequencies  the utility of the training part's frequencies
//	evaluation/utility      the sum of the shares: recall@1, recall@5 and perplexity; for labels
//	                        of texts the mean absolute error, or the mean average precision
package utility

import (
	"cmp"
	"context"
	"fmt"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/models/ranking"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
)

// DataInput of evaluation/part is datasets/encode. BaselineInput of evaluation/utility, absent for tags, is
// evaluation/frequencies.
const (
	DataInput     = "data"
	BaselineInput = "baseline"
)

type PartParams struct {
	// Data is the part to predict: population.Test or population.Validation.
	Data population.Part `json:"data"`
	// Share is the number of the share, from 0, among Shares.
	Share  int `json:"share"`
	Shares int `json:"shares"`
	// Top also counts targets among the first guesses; not for labels of texts.
	Top bool `json:"top,omitempty"`
	// Program, if set, predicts instead of Coalmine, and needs external.VocabularyInput.
	Program *clientprograms.Program `json:"program,omitempty"`
	// Words compares the program's targets with the ordinary words of its examples. It is set with every
	// Program, but not in earlier results.
	Words bool `json:"words,omitempty"`
}

func (p PartParams) UsesProgram() *clientprograms.Program { return p.Program }

// Part predicts one share of the test part. Its metrics are a models.Evaluation; for labels of texts,
// partMetrics, with the blob "labels".
var Part = tasks.Kind{Name: "evaluation/part", Version: 1, Class: tasks.Compute, Run: audits.Measuring(predict)}

// blockSentences is the number of sentences decoded at a time. It does not affect results.
const blockSentences = 4096

func predict(ctx context.Context, t *tasks.Task, p *PartParams) (any, error) {
	if p.Program != nil {
		return predictByProgram(ctx, t, p)
	}
	model, err := checkpoints.Read(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, err
	}
	if network, ok := model.Network.(models.Labelling); ok {
		return predictLabels(ctx, t, p, model.Network.Config(), network.NewLabeller(model.Params))
	}
	evaluate, _, err := evaluatorOf(ctx, t, model, p.Top)
	if err != nil {
		return nil, err
	}
	return p.evaluate(ctx, t, evaluate)
}

// predictByProgram lets a program predict the share. If its number of targets differs, the program has its own
// tokens: its loss is then per word, and its recall is unknown.
func predictByProgram(ctx context.Context, t *tasks.Task, p *PartParams) (m partMetrics, err error) {
	evaluate, client, err := programEvaluator(ctx, t, p.Program)
	if err != nil {
		return m, err
	}
	defer client.GiveBack()
	words := int64(0)
	m.Evaluation, err = p.evaluate(ctx, t, func(examples [][]int32) (models.Evaluation, error) {
		for _, s := range examples {
			words += int64(lists.Count(external.Words(s), isOrdinary))
		}
		return evaluate(examples)
	})
	input := client.Description().Input
	if targets := m.Counted.Tokens; err == nil && p.Words && targets != words && input != clientprograms.ImagesInput {
		by := "its targets"
		if input == clientprograms.TextInput {
			m.Counted.Tokens, by = words, "words"
		}
		m.RecallUnknown = fmt.Sprintf("the program counts %d targets where the examples have %d ordinary words; its perplexity is by %s", targets, words, by)
	}
	return m, err
}

// programEvaluator lets a program measure the model of audits.ModelInput, in the words of
// external.VocabularyInput: ordinary words, or labels of images. The caller gives the client back.
func programEvaluator(ctx context.Context, t *tasks.Task, program *clientprograms.Program) (Evaluator, clientprograms.Client, error) {
	model, err := external.ClientModel(t, audits.ModelInput)
	if err != nil {
		return nil, nil, err
	}
	client, _, err := external.BorrowClient(ctx, t, program)
	if err != nil {
		return nil, nil, err
	}
	return func(examples [][]int32) (models.Evaluation, error) {
		e, err := client.Evaluate(ctx, clientprograms.Work{Model: model, Examples: examples})
		if err != nil {
			return models.Evaluation{}, err
		}
		tally := models.Tally{Tokens: e.Targets, Hits: e.Correct, Loss: float64(e.Loss * float64(e.Targets))}
		return models.Evaluation{Counted: tally}, nil
	}, client, nil
}

func predictLabels(ctx context.Context, t *tasks.Task, p *PartParams, c models.Config, labeller models.Labeller) (m partMetrics, err error) {
	labelled := labelledTexts{kind: c.Kind}
	m.Kind, m.Outputs = c.Kind, 1
	if c.Kind != models.Regressor {
		m.Outputs = max(c.Labels, c.Image.Classes)
	}
	m.Evaluation, err = p.evaluate(ctx, t, ours(func(examples [][]int32) (models.Evaluation, error) {
		return labelled.evaluate(labeller, examples)
	}))
	if err == nil && p.Data == population.Test {
		err = labelled.put(ctx, t)
	}
	return m, err
}

func (p *PartParams) evaluate(ctx context.Context, t *tasks.Task, evaluate Evaluator) (total models.Evaluation, err error) {
	part, err := population.OpenPart(ctx, t, DataInput, p.Data)
	if err != nil {
		return total, err
	}
	n := part.Records()
	first, end := p.Share*n/p.Shares, (p.Share+1)*n/p.Shares
	for from := first; from < end; from += blockSentences {
		sentences, err := part.ReadRecords(ctx, from, min(from+blockSentences, end))
		if err != nil {
			return total, err
		}
		evaluation, err := evaluate(sentences)
		if err != nil {
			return total, err
		}
		total = total.Add(evaluation)
		t.Progress(tasks.Progress{Done: int64(from - first), Total: int64(end - first), Tokens: total.All.Tokens})
	}
	return total, nil
}

// Evaluator tallies the predictions of examples. Errors are permanent if a retry cannot succeed.
type Evaluator func(examples [][]int32) (models.Evaluation, error)

// ours makes errors permanent: models of Coalmine are functions of the examples.
func ours(evaluate Evaluator) Evaluator {
	return func(examples [][]int32) (models.Evaluation, error) {
		evaluation, err := evaluate(examples)
		return evaluation, tasks.Permanent(err)
	}
}

// evaluatorOf returns the evaluator of a language model, with its scorer, or of a classifier, whose targets
// are labels.
func evaluatorOf(ctx context.Context, t *tasks.Task, model *checkpoints.Model, top bool) (Evaluator, *models.Scorer, error) {
	if network, ok := model.Network.(models.Classifying); ok {
		return ours(classifications(network.NewClassifier(model.Params), top)), nil, nil
	}
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, nil, err
	}
	of := scorer.Evaluate
	if top {
		of = scorer.EvaluateTop
	}
	return ours(func(sentences [][]int32) (models.Evaluation, error) { return of(sentences, isOrdinary) }), scorer, nil
}

// classifications tallies predicted labels, for examples with a label.
func classifications(c models.Classifier, top bool) Evaluator {
	return func(examples [][]int32) (models.Evaluation, error) {
		predictions, err := c.Classify(examples)
		var tally models.Tally
		for _, p := range predictions {
			if p.Label == models.NoLabel {
				continue
			}
			tally.Tokens++
			tally.Loss += p.Loss
			if p.Class == p.Label {
				tally.Hits++
			}
			if top && ranking.Place(p.Logits, p.Label) < models.TopGuesses {
				tally.TopHits++
			}
		}
		return models.Evaluation{Counted: tally, All: tally}, err
	}
}

// isOrdinary reports whether a target counts: words do, <unk> and <end> do not.
func isOrdinary(target int32) bool { return target >= text.FirstWord }

type SumParams struct {
	Shares int `json:"shares"`
	// Top reports whether the shares have counted targets among the first guesses.
	Top bool `json:"top,omitempty"`
}

// Sum adds the shares of evaluation/part, tasks.PartInput, and compares the outcome with the baseline.
var Sum = tasks.Kind{Name: "evaluation/utility", Version: 3, Class: tasks.Compute, Run: tasks.WithParams(runSum)}

func runSum(ctx context.Context, t *tasks.Task, p *SumParams) error {
	var total models.Evaluation
	var labelled labelledTexts
	unknown := ""
	for share := range p.Shares {
		var m partMetrics
		if err := t.InputMetrics(ctx, tasks.PartInput(share), &m); err != nil {
			return err
		}
		if m.Kind != "" {
			if err := labelled.read(ctx, t, tasks.PartInput(share), &m); err != nil {
				return err
			}
		}
		total, unknown = total.Add(m.Evaluation), cmp.Or(unknown, m.RecallUnknown)
	}
	if labelled.kind != "" {
		v, err := labelled.outcome()
		if err != nil {
			return tasks.Permanent(err)
		}
		return v.set(ctx, t)
	}
	if total.Counted.Tokens == 0 {
		return tasks.Permanent(population.NothingToPredict(population.Test, total.All.Tokens > 0))
	}
	u := p.outcome(total.Counted)
	if u.RecallUnknown = unknown; unknown != "" {
		u.RecallAt1 = 0
	}
	if total.All.Tokens > 0 { // a program counts only ordinary words
		u.AllTargets = new(p.outcome(total.All))
	}
	return u.set(ctx, t)
}

// set compares the outcome with the baseline, and makes it the metrics of the task.
func (v *Outcome) set(ctx context.Context, t *tasks.Task) error {
	if t.Has(BaselineInput) {
		v.Baseline = new(Outcome)
		if err := t.InputMetrics(ctx, BaselineInput, v.Baseline); err != nil {
			return err
		}
	}
	v.AtBaseline = v.atBaseline()
	return t.SetMetrics(v)
}

func (p *SumParams) outcome(t models.Tally) Outcome {
	v := Outcome{RecallAt1: t.Recall(), Perplexity: numbers.Float(t.Perplexity()), Tokens: t.Tokens}
	if v.Perplexity.Infinite() {
		v.Infinite, v.MeanLoss = true, t.Loss/float64(t.Tokens)
	}
	if p.Top {
		v.RecallAt5 = new(t.TopRecall())
	}
	return v
}
