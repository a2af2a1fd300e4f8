// Package onerun bounds epsilon from below by one trained model (Steinke, Nasr and
// Jagielski 2023): canaries of its own, each in a user of its own by a fair coin, and
// guesses from the model how the coins came up.
//
//	canaries/one-run  population, vocabulary -> the population with the coins in it
//	audits/one-run    the lower bound, from the models before and after training
package onerun

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"coalmine/models"
	"coalmine/privacy"
	"coalmine/privacy/onerun"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets"
)

// BoundParams are the parameters of audits/one-run.
type BoundParams struct {
	// KPlus units of the highest scores are guessed to be in, KMinus of the
	// lowest to be out.
	KPlus  int `json:"k_plus"`
	KMinus int `json:"k_minus"`
	// Delta is that of the upper bound, Confidence that of the lower one.
	Delta      float64 `json:"delta"`
	Confidence float64 `json:"confidence"`
	// Neighbouring and Unit are what the coins stand for, to be printed.
	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Unit         string               `json:"unit"`
	// Halvings of KPlus and KMinus that are tried, too.
	Halvings int `json:"halvings,omitempty"`
	// Score names the scores, "" for ScoreLossDifference.
	Score string `json:"-"`
	// Null is the training whose trade-off curve is tested; nil tests none.
	Null *Null `json:"null,omitempty"`
	// Program, where there is one, scores in place of this program. The task then needs
	// external.VocabularyInput.
	Program *clientprograms.Program `json:"program,omitempty"`
}

// Asks implements clientprograms.Asker.
func (p BoundParams) Asks() *clientprograms.Program { return p.Program }

// Bound bounds epsilon from below by what can be guessed of the coins of
// canaries/one-run (Steinke, Nasr and Jagielski 2023). The score of a unit is
// ScoreLossDifference; nothing about it is fitted to this model or its coins.
//
// Inputs: "model": the trained checkpoint; "initial": the one before training;
// "units": canaries/one-run; "population", where Null says that clients have joined it: what
// is trained on. Its blob OutcomeBlob is an Outcome.
var Bound = tasks.Kind{Name: "audits/one-run", Version: 2, Class: tasks.Compute, Run: runBound}

// Inputs of Bound beside audits.ModelInput.
const (
	InitialInput = "initial"
	UnitsInput   = "units"
)

// OutcomeBlob is an Outcome, as JSON.
const OutcomeBlob = "one-run"

// ScoreLossDifference names the score of a unit: its canary's log-perplexity
// under the initial model less that under the trained one.
const ScoreLossDifference = "loss-difference"

func runBound(ctx context.Context, t *tasks.Task) error {
	var p BoundParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	if p.Program != nil {
		return p.bound(ctx, t, p.byProgram)
	}
	return p.bound(ctx, t, lossDifferences)
}

// scoring scores canaries, higher where the model knows one better.
type scoring func(ctx context.Context, t *tasks.Task, list []datasets.Canary) ([]float64, error)

// bound writes the outcome that follows from the scores.
func (p *BoundParams) bound(ctx context.Context, t *tasks.Task, score scoring) error {
	units, carried, err := audits.ReadUnits(ctx, t, UnitsInput)
	if err != nil {
		return err
	}
	scores, err := score(ctx, t, carried)
	if err != nil {
		return err
	}
	outcome, err := p.Judge(units, scores)
	if err != nil {
		return tasks.Permanent(err)
	}
	if p.Null != nil {
		counts, err := p.Null.readCounts(ctx, t)
		if err != nil {
			return err
		}
		if outcome.TradeOff, err = p.refute(units, scores, counts); err != nil {
			return tasks.Permanent(err)
		}
		if err := p.compare(&outcome, counts); err != nil {
			return tasks.Permanent(err)
		}
	}
	for i := range outcome.Units {
		outcome.Units[i].Words = carried[i].Words
	}
	return t.PutJSON(ctx, OutcomeBlob, outcome)
}

// Judge guesses how the coins of units came up, by a score for each that is higher where the
// model knows its canary better, and bounds. The outcome's units have no words.
func (p *BoundParams) Judge(units []audits.Unit, scores []float64) (Outcome, error) {
	included := coinsOf(units)
	answers, err := onerun.Answers(scores, p.KPlus, p.KMinus)
	if err != nil {
		return Outcome{}, err
	}
	v, err := p.best(included, scores)
	if err != nil {
		return Outcome{}, err
	}
	m := len(included)
	all, err := onerun.LowerBound(onerun.Outcome{Units: m, Guesses: m, Correct: m}, p.Delta, p.Confidence)
	if err != nil {
		return Outcome{}, err
	}
	v.Canaries, v.EpsilonLargestCanaries = m, all.Epsilon
	v.Neighbouring, v.Unit, v.Score = p.Neighbouring, p.Unit, cmp.Or(p.Score, ScoreLossDifference)
	for i, in := range included {
		if in {
			v.Included++
		}
		v.Units = append(v.Units, Unit{Score: scores[i], Included: in, Guess: answers[i]})
	}
	return v, nil
}

// best is the bound of the numbers of guesses that show most.
func (p *BoundParams) best(included []bool, scores []float64) (best Outcome, err error) {
	choices := p.choices()
	for i, k := range choices {
		outcome, err := onerun.Guess(included, scores, k.KPlus, k.KMinus)
		if err != nil {
			return best, err
		}
		bound, err := onerun.LowerBound(outcome, p.Delta, each(p.Confidence, len(choices)))
		if err != nil {
			return best, err
		}
		if i > 0 && bound.Epsilon <= best.EpsilonLower {
			continue
		}
		best = Outcome{
			KPlus: k.KPlus, KMinus: k.KMinus, Correct: outcome.Correct,
			EpsilonLower: bound.Epsilon, Delta: p.Delta, Confidence: p.Confidence, EpsilonLargest: bound.Largest,
		}
	}
	if len(choices) > 1 {
		best.Choices = len(choices)
	}
	return best, nil
}

// each is the confidence at which each of so many bounds has to hold, for all of them to hold
// with a confidence together.
func each(confidence float64, bounds int) float64 {
	if bounds == 1 {
		return confidence
	}
	return 1 - onerun.Share(1-confidence, bounds)
}

func (p *BoundParams) choices() []Guesses {
	return Guesses{KPlus: p.KPlus, KMinus: p.KMinus, Halvings: p.Halvings}.choices()
}

func coinsOf(units []audits.Unit) []bool {
	included := make([]bool, len(units))
	for i, u := range units {
		included[i] = u.Included
	}
	return included
}

// lossDifferences scores the canaries under both models.
func lossDifferences(ctx context.Context, t *tasks.Task, list []datasets.Canary) ([]float64, error) {
	before, err := readLosses(ctx, t, InitialInput, list)
	if err != nil {
		return nil, err
	}
	after, err := readLosses(ctx, t, audits.ModelInput, list)
	if err != nil {
		return nil, err
	}
	for i := range before {
		before[i] -= after[i]
	}
	return before, nil
}

// canaryBlock is how many canaries are scored together. It shows in no result: a
// state's numbers do not depend on its neighbours.
const canaryBlock = 192

func readLosses(ctx context.Context, t *tasks.Task, input string, list []datasets.Canary) ([]float64, error) {
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
		losses, err := blockLosses(scorer, block)
		if err != nil {
			return nil, tasks.Permanent(fmt.Errorf("%s: %w", input, err))
		}
		out = append(out, losses...)
	}
	return out, nil
}

// blockLosses returns the log-perplexity of each whole canary in nats, after
// Begin alone. The canaries are of one length.
func blockLosses(scorer *models.Scorer, block []datasets.Canary) ([]float64, error) {
	losses, logProbs := make([]float64, len(block)), make([]float32, len(block))
	states, words := scorer.Start(len(block)), make([]int32, len(block))
	for i := range words {
		words[i] = datasets.Begin
	}
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
			losses[i] += audits.Surprisal(l)
		}
	}
	for _, loss := range losses {
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return nil, &models.DivergedError{What: "log-perplexity of a canary", Value: loss}
		}
	}
	return losses, nil
}
