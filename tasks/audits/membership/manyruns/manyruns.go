// Package manyruns bounds epsilon from below by many trainings. Each has a different seed and one canary, which
// a fair coin inserts or leaves out, as in a one-run audit of one canary. Half of the trainings choose the score
// threshold from which a training counts as one with the canary. The others prove the bound by Clopper and
// Pearson's intervals.
//
//	audits/many-runs  the bound, from the outcomes of audits/one-run
package manyruns

import (
	"context"
	"fmt"

	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/tasks/datasets/population"
)

type Params struct {
	Runs int `json:"runs"`
	// Delta is the delta of the upper bound, Confidence the confidence of the lower bound.
	Delta      float64 `json:"delta"`
	Confidence float64 `json:"confidence"`
	// Neighbouring and Unit name the change that a coin stands for, for printing.
	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Unit         string               `json:"unit"`
	// Null is the training whose trade-off curve is tested.
	Null *onerun.Null `json:"null"`
}

// Bound bounds epsilon from below. Inputs: RunInput of each training, its audits/one-run; PopulationInput, the
// training population. Its blob OutcomeBlob is an Outcome.
var Bound = tasks.Kind{Name: "audits/many-runs", Version: 1, Class: tasks.Compute, Run: audits.Finds(OutcomeBlob, measure)}

const PopulationInput = "population"

// RunInput returns the name of a training's input. Runs count from 0.
func RunInput(run int) string { return fmt.Sprintf("run %d", run) }

// OutcomeBlob is an Outcome, as JSON.
const OutcomeBlob = "many-runs"

func measure(ctx context.Context, t *tasks.Task, p *Params) (*Outcome, error) {
	var counts population.PartitionMetrics
	if err := t.InputMetrics(ctx, PopulationInput, &counts); err != nil {
		return nil, err
	}
	v := &Outcome{Delta: p.Delta, Confidence: p.Confidence, Neighbouring: p.Neighbouring, Unit: p.Unit}
	for run := range p.Runs {
		var of onerun.Outcome
		if err := t.InputJSON(ctx, RunInput(run), onerun.OutcomeBlob, &of); err != nil {
			return nil, err
		}
		if len(of.Units) != 1 {
			return nil, tasks.Permanent(fmt.Errorf("%s: %d units; expected one", RunInput(run), len(of.Units)))
		}
		v.Score = of.Score
		v.Trainings = append(v.Trainings, Training{Score: of.Units[0].Score, Included: of.Units[0].Included, Chooses: run%2 == 0})
	}
	return v, tasks.Permanent(v.judge(p.Null.Recipe(p.Delta, p.Unit, counts)))
}

// judge sets the bounds of an outcome from its trainings.
func (v *Outcome) judge(recipe privacy.Recipe) error {
	var choosing, proving []empirical.Run
	for _, t := range v.Trainings {
		run := empirical.Run{Score: t.Score, Included: t.Included}
		if t.Chooses {
			choosing = append(choosing, run)
		} else {
			proving = append(proving, run)
		}
		if t.Included {
			v.Included++
		}
	}
	v.Runs = len(v.Trainings)
	v.Rule = empirical.ChooseRule(choosing, func(r empirical.Rates) float64 { return r.Epsilon(v.Delta, v.Confidence) })
	v.Rates = v.Rule.Rates(proving)
	v.EpsilonLower, v.EpsilonLargest = v.Rates.Epsilon(v.Delta, v.Confidence), v.Rates.Perfect().Epsilon(v.Delta, v.Confidence)
	rule := empirical.ChooseRule(choosing, func(r empirical.Rates) float64 { return r.Shift(v.Confidence) })
	rates := rule.Rates(proving)
	if rates.Of == 0 || rates.Others == 0 {
		return nil // all coins of the proving trainings are equal: nothing is proved
	}
	bound, err := rates.MinNoise(recipe, v.Confidence)
	v.TradeOff = &TradeOff{
		Rule: rule, Rates: rates, Noise: onerun.NewNoise(bound), Claimed: recipe.NoiseMultiplier > 0, Refuted: bound.PValue <= 1-v.Confidence,
	}
	return err
}
