// Package onerun bounds epsilon from below by one trained model (Steinke, Nasr and
// Jagielski 2023): it inserts canaries, each into a different user by a fair coin, and
// guesses the coins from the model.
//
//	canaries/one-run  population, vocabulary -> the population with the coins in it
//	audits/one-run    the lower bound, from the models before and after training
package onerun

import (
	"context"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
)

type BoundParams struct {
	// KPlus units with the highest scores are guessed to be in, KMinus with the lowest to be out.
	KPlus  int `json:"k_plus"`
	KMinus int `json:"k_minus"`
	// Delta is the delta of the upper bound, Confidence the confidence of the lower bound.
	Delta      float64 `json:"delta"`
	Confidence float64 `json:"confidence"`
	// Neighbouring and Unit name the change that a coin stands for, for printing.
	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Unit         string               `json:"unit"`
	// Halvings is the number of halvings of KPlus and KMinus that are tried, too.
	Halvings int `json:"halvings,omitempty"`
	// Null is the training whose trade-off curve is tested. nil: no test.
	Null *Null `json:"null,omitempty"`
	// Program, if set, scores by its own models. The task then needs external.VocabularyInput.
	Program *clientprograms.Program `json:"program,omitempty"`
	// Model, if set, is an external model. The task then needs population.PartsInput, and no
	// InitialInput.
	Model *external.ModelParams `json:"model,omitempty"`
	Plain bool                  `json:"plain_loss,omitempty"`
	// Vectors, if set, are the canaries. The task then needs PopulationInput for a Null, and InitialInput
	// without a Watch, and no UnitsInput.
	Vectors *VectorParams `json:"vectors,omitempty"`
}

// UsesProgram implements clientprograms.ProgramUser.
func (p BoundParams) UsesProgram() *clientprograms.Program { return p.Program }

// Bound bounds epsilon from below by guesses about the coins of canaries/one-run (Steinke, Nasr and Jagielski
// 2023). The score of a unit, one of the Score constants, is not fitted to this model or its coins.
//
// Inputs: "model": the trained checkpoint; "initial": the one before training; "units":
// canaries/one-run; "population", if Null.Joined: the training population. Its blob OutcomeBlob is an
// Outcome.
var Bound = tasks.Kind{Name: "audits/one-run", Version: 3, Class: tasks.Compute, Run: tasks.WithParams(runBound)}

// Scored is Bound by external models.
var Scored = tasks.Kind{Name: "audits/one-run-scores", Version: 1, Class: tasks.Compute, Command: true, Run: tasks.WithParams(runBound)}

// Inputs of Bound in addition to audits.ModelInput.
const (
	InitialInput = "initial"
	UnitsInput   = "units"
)

// OutcomeBlob is an Outcome, as JSON.
const OutcomeBlob = "one-run"

const (
	// ScoreLossDifference is the canary's log-perplexity (of an image the loss of its label) under the initial
	// model minus that under the trained one, ScorePlainLoss the negative of the latter.
	ScoreLossDifference = "loss-difference"
	ScorePlainLoss      = "plain-loss"
)

func runBound(ctx context.Context, t *tasks.Task, p *BoundParams) error {
	units, carried, scores, err := p.scored(ctx, t)
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
		if outcome.Ceilings, err = p.ceilings(len(units), counts); err != nil {
			return tasks.Permanent(err)
		}
	}
	if outcome.Estimate, err = p.estimate(units, scores); err != nil {
		return tasks.Permanent(err)
	}
	for i := range carried {
		outcome.Units[i].Words = carried[i].Words
	}
	return t.PutJSON(ctx, OutcomeBlob, outcome)
}

// scored returns the units, their canaries if they are texts, and their scores.
func (p *BoundParams) scored(ctx context.Context, t *tasks.Task) (units []audits.Unit, carried []population.Canary, scores []float64, err error) {
	if p.Vectors != nil {
		scores, err = p.Vectors.scores(ctx, t)
		return p.Vectors.units(), nil, scores, err
	}
	if units, carried, err = audits.ReadUnits(ctx, t, UnitsInput); err == nil {
		scores, err = p.scores(ctx, t, carried)
	}
	return units, carried, scores, err
}

// Judge guesses the coins of units by their scores, higher for a canary that the model has learned better,
// and bounds epsilon. The outcome's units have no words.
func (p *BoundParams) Judge(units []audits.Unit, scores []float64) (Outcome, error) {
	included := coinsOf(units)
	answers, err := empirical.Answers(scores, p.KPlus, p.KMinus)
	if err != nil {
		return Outcome{}, err
	}
	v, err := p.best(included, scores)
	if err != nil {
		return Outcome{}, err
	}
	m := len(included)
	all, err := empirical.LowerBound(empirical.Outcome{Units: m, Guesses: m, Correct: m}, p.Delta, p.Confidence)
	if err != nil {
		return Outcome{}, err
	}
	v.Canaries, v.EpsilonLargestCanaries = m, all.Epsilon
	v.Neighbouring, v.Unit, v.Score = p.Neighbouring, p.Unit, p.score()
	for i, in := range included {
		if in {
			v.Included++
		}
		v.Units = append(v.Units, Unit{Score: scores[i], Included: in, Guess: answers[i]})
	}
	return v, nil
}

func (p *BoundParams) score() string {
	switch {
	case p.Vectors != nil && p.Vectors.Watch != nil:
		return ScoreLikelihood
	case p.Vectors != nil:
		return ScoreChange
	case p.Plain:
		return ScorePlainLoss
	}
	return ScoreLossDifference
}

// best returns the largest bound over the numbers of guesses.
func (p *BoundParams) best(included []bool, scores []float64) (best Outcome, err error) {
	choices := p.choices()
	for i, k := range choices {
		outcome, err := empirical.Guess(included, scores, k.KPlus, k.KMinus)
		if err != nil {
			return best, err
		}
		bound, err := empirical.LowerBound(outcome, p.Delta, each(p.Confidence, len(choices)))
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

// each returns the confidence of each bound, so that all of them hold together with the given confidence.
func each(confidence float64, bounds int) float64 {
	if bounds == 1 {
		return confidence
	}
	return 1 - empirical.Share(1-confidence, bounds)
}

func (p *BoundParams) choices() []Guesses {
	return Guesses{KPlus: p.KPlus, KMinus: p.KMinus, Halvings: p.Halvings}.choices()
}

func coinsOf(units []audits.Unit) []bool {
	return lists.Map(units, func(u audits.Unit) bool { return u.Included })
}

// scores returns the log-probabilities of canaries, as whole sequences after Begin and in nats, under the
// trained model, minus those under the initial model unless plain.
func (p *BoundParams) scores(ctx context.Context, t *tasks.Task, list []population.Canary) ([]float64, error) {
	sequences := lists.Map(list, func(c population.Canary) []int32 { return c.Tokens })
	inputs := map[external.ModelChoice]string{external.Trained: audits.ModelInput, external.Initial: InitialInput}
	switch {
	case p.Model != nil:
		vocabulary, err := text.ReadVocabulary(ctx, t, population.PartsInput)
		if err != nil {
			return nil, err
		}
		return p.compared(func(which external.ModelChoice) ([]float64, error) {
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
		return p.compared(func(which external.ModelChoice) ([]float64, error) {
			return external.ClientCosts(ctx, t, client, inputs[which], nil, sequences)
		})
	}
	return p.compared(func(which external.ModelChoice) ([]float64, error) { return ownCosts(ctx, t, inputs[which], sequences) })
}

// compared turns log-perplexities into scores.
func (p *BoundParams) compared(costs func(external.ModelChoice) ([]float64, error)) ([]float64, error) {
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
	model, err := checkpoints.Read(ctx, t, input)
	if err != nil {
		return nil, err
	}
	if network, ok := model.Network.(models.Classifying); ok {
		costs, err := labelCosts(ctx, network.NewClassifier(model.Params), lists.Map(sequences, framed))
		return costs, tasks.Permanent(err)
	}
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
	states, words := scorer.Start(len(block)), slices.Repeat([]int32{text.Begin}, len(block))
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
			return nil, &models.DivergedError{Name: "log-perplexity of a canary", Value: sum}
		}
	}
	return sums, nil
}
