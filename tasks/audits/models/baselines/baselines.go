// Package baselines measures what can be predicted of the test part without a model (Orekondy
// et al. 2018, table 2), so that the utility of one has something to be held against:
//
//	audits/baselines   chance, the best answer that is always the same, and nearest neighbours
//
// It reads the data alone: cells that differ in their models or trainings share it.
package baselines

import (
	"context"
	"fmt"

	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/tasks/features"
)

// DataInput of audits/baselines is datasets/encode.
const DataInput = "data"

// Params are the parameters of audits/baselines.
type Params struct {
	// Level and Label are those of the data's reading, and Pairs.
	Level datasets.Level `json:"level,omitzero"`
	Label datasets.Label `json:"label,omitempty"`
	Pairs bool           `json:"pairs,omitempty"`
	// Choices is how many ordinary words there are to guess, or classes, scores or tags.
	Choices int `json:"choices"`
}

// Kind measures the baselines. Its metrics are an Outcome.
var Kind = tasks.Kind{Name: "audits/baselines", Version: 1, Class: tasks.Compute, Run: run}

func run(ctx context.Context, t *tasks.Task) error {
	var p Params
	if err := t.Decode(&p); err != nil {
		return err
	}
	if p.Choices < 1 {
		return tasks.Permanent(fmt.Errorf("%d choices; expected at least one", p.Choices))
	}
	train, err := datasets.OpenPart(ctx, t, DataInput, datasets.Train)
	if err != nil {
		return err
	}
	test, err := datasets.OpenPart(ctx, t, DataInput, datasets.Test)
	if err != nil {
		return err
	}
	var v *Outcome
	if p.ofWords() {
		v, err = p.words(ctx, train, test)
	} else {
		v, err = p.labels(ctx, t, train, test)
	}
	if err != nil {
		return err
	}
	return t.SetMetrics(v)
}

// ofWords reports whether words are predicted, not what is said of whole examples.
func (p *Params) ofWords() bool { return p.Label == "" && !p.Level.Scheme().Images }

// each calls do with the sentences of a part, in their order.
func each(ctx context.Context, part *datasets.Population, do func(sentence []int32) error) error {
	for user := range part.Users() {
		sentences, err := part.ReadUser(ctx, user)
		if err != nil {
			return err
		}
		for _, s := range sentences {
			if err := do(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// layout is that of the examples of which something is said.
func (p *Params) layout() features.Layout {
	if p.Level.Scheme().Images {
		return features.Layout{Images: true, Labels: p.imageLabels()}
	}
	return features.Layout{Labels: p.Choices}
}

// imageLabels is how many numbers stand before the pixels of an image.
func (p *Params) imageLabels() int {
	if p.Label == datasets.TagsLabel {
		return p.Choices
	}
	return 1
}
