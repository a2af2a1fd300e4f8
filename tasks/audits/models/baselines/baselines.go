// Package baselines measures predictions of the test part without a model, for comparison with the
// utility of a model (Orekondy et al. 2018, table 2). It reads only the data, so that cells of
// different models or trainings share it:
//
//	audits/baselines   chance, the best constant answer, and nearest neighbours
package baselines

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/devices"
)

type Params struct {
	utility.Reading
	// Choices is the number of ordinary words, classes, scores or tags.
	Choices int `json:"choices"`
}

// Kind measures the baselines. Its input is utility.DataInput, its metrics are an Outcome.
var Kind = tasks.Kind{Name: "audits/baselines", Version: 1, Class: tasks.Compute, Run: audits.Measuring(predictWithoutModel)}

func predictWithoutModel(ctx context.Context, t *tasks.Task, p *Params) (*Outcome, error) {
	if p.Choices < 1 {
		return nil, tasks.Permanent(fmt.Errorf("%d choices; expected at least one", p.Choices))
	}
	train, test, err := utility.OpenParts(ctx, t)
	switch {
	case err != nil:
		return nil, err
	case p.OfWords():
		return p.words(ctx, train, test)
	}
	return p.labels(ctx, t, train, test)
}

// words measures guesses of the words that the utility counts.
func (p *Params) words(ctx context.Context, train, test *population.Population) (*Outcome, error) {
	frequent, asked, err := p.CountBoth(ctx, train, test)
	if err != nil {
		return nil, err
	}
	v := p.guessing(frequent, asked)
	if v.Examples == 0 {
		return nil, tasks.Permanent(population.NothingToPredict(population.Test, test.Records() > 0))
	}
	return v, nil
}

// guessing measures guesses of tokens: each choice with the same probability, and the most frequent known
// ones, lower ones first among equals.
func (p *Params) guessing(known, asked utility.Counts) *Outcome {
	order := known.Different()
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(known[b], known[a]) })
	v, first, top := &Outcome{Chance: guessingAmong(p.Choices)}, int64(0), int64(0)
	for token, n := range asked {
		v.Examples += n
		switch slices.Index(order[:min(models.TopGuesses, len(order))], token) {
		case -1:
			continue
		case 0:
			first = n
		}
		top += n
	}
	all := float64(v.Examples)
	v.Constant = &Utility{RecallAt1: new(float64(first) / all), RecallAt5: new(float64(top) / all)}
	return v
}

func guessingAmong(choices int) Utility {
	n := float64(choices)
	return Utility{RecallAt1: new(1 / n), RecallAt5: new(min(1, models.TopGuesses/n))}
}

// layout returns the layout of the labelled examples; for an image, the number of values before the pixels.
func (p *Params) layout() devices.FeatureLayout {
	l := devices.FeatureLayout{Images: p.Level.Scheme().Images, Labels: p.Choices}
	if l.Images && p.Label != source.TagsLabel {
		l.Labels = 1
	}
	return l
}
