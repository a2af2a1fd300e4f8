package external

import (
	"context"
	"fmt"

	"coalmine/internal/conformance"
	"coalmine/internal/score"
	"coalmine/internal/timing"
)

// Pace measures how fast a command trains, and how fast the command scores that it leaves.
type Pace struct {
	// Check has the command, its code, its job, its rounds and what it may do.
	Check
	// Scorer is the archive with the code of the command that scores, nil for none.
	Scorer []byte
	// Sample has the words and the length of the texts. It is trained on some users of it, and on
	// all of them at most.
	Sample Sample
}

// Seconds is the time that a Pace has measured: of a training Start and Example for each
// example, of scoring Load and Text for each text of ScoredWords words, or each image. Load is 0
// where nothing scores.
type Seconds struct{ Start, Example, Load, Text float64 }

// ScoredWords are the words of a text that a Pace has scored.
const ScoredWords = 5

const (
	fewExamples  = 32 // of the first training
	difference   = 1  // second between the first training and the last one
	moreExamples = 4  // times, from one training to the next
	scoredTexts  = 512
)

// Measure trains on a few examples, and then on more until that takes longer by a difference that
// tells.
func (p *Pace) Measure(ctx context.Context) (*Seconds, error) {
	first, few, err := p.timed(ctx, fewExamples)
	if err != nil {
		return nil, err
	}
	defer first.workspace.Remove()
	s, n, many := &Seconds{Start: few}, fewExamples, few
	for many-few < difference && n < p.Sample.Users*p.Sample.Examples {
		n *= moreExamples
		var x *trial
		if x, many, err = p.timed(ctx, n); err != nil {
			return nil, err
		}
		x.workspace.Remove()
	}
	if n > fewExamples {
		s.Example = max(0, (many-few)/float64(n-fewExamples))
		s.Start = max(0, few-fewExamples*s.Example)
	}
	return s, p.scoring(ctx, first, s)
}

// timed trains on about so many examples.
func (p *Pace) timed(ctx context.Context, examples int) (x *trial, seconds float64, err error) {
	c := p.Check
	c.sample = p.Sample
	c.sample.Users, c.sample.Examples = max(1, examples/p.Sample.Examples), min(examples, p.Sample.Examples)
	seconds, err = timing.Children(func() error { x, err = c.train(ctx, nil, nil); return err })
	if err != nil {
		return nil, 0, err
	}
	if _, err := x.ended(); err != nil {
		x.workspace.Remove()
		return nil, 0, err
	}
	return x, seconds, nil
}

// scoring measures the command that a training leaves.
func (p *Pace) scoring(ctx context.Context, x *trial, s *Seconds) error {
	result, err := x.ended()
	if err != nil || result.Score == "" {
		return err
	}
	timed := func(texts int) (float64, error) {
		return timing.Children(func() error {
			return p.asking(ctx, x, result.Score, p.Scorer, func(client *score.Client) error { return p.score(ctx, client, texts) })
		})
	}
	if s.Load, err = timed(1); err != nil {
		return err
	}
	all, err := timed(1 + scoredTexts)
	s.Text = max(0, all-s.Load) / scoredTexts
	return err
}

// score has so many texts or images scored.
func (p *Pace) score(ctx context.Context, client *score.Client, n int) error {
	if m := p.Image; m.Classes > 0 {
		images := make([][]byte, n)
		for i := range images {
			images[i] = conformance.Image(m.Pixels(), m.Classes, i)
		}
		_, err := client.Classify(ctx, ShapeOf(m), images, m.Classes, batch)
		return err
	}
	pairs, s := make([]score.Pair, n), &p.Sample
	for i := range pairs {
		pairs[i] = score.Pair{Context: s.ofLength(i, 1), Continuation: " " + s.ofLength(i+1, ScoredWords)}
	}
	if _, err := client.LogLikelihoods(ctx, pairs, batch); err != nil {
		return fmt.Errorf("scoring %d texts: %w", n, err)
	}
	return nil
}
