package external

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"coalmine/internal/contracts"
	"coalmine/internal/lists"
	"coalmine/internal/score"
	"coalmine/tasks/clientprograms"
)

// Pace measures the speed of a command's training and of its scoring command.
type Pace struct {
	// Check has the command, its code, its job, its rounds and its limits.
	Check
	// Scorer has the code of the scoring command.
	Scorer clientprograms.Code
	// Sample has the words and the length of the texts. Training uses some or all of its users.
	Sample Sample
}

// Seconds is the time that a Pace has measured: Start of a training and Example per example; Load
// of a scorer and Text per text of ScoredWords words, or per image. Load is 0 without scoring.
type Seconds struct{ Start, Example, Load, Text float64 }

// ScoredWords is the number of words of a scored text.
const ScoredWords = 5

const (
	fewReplays   = 20 // repeats of a trial's replay
	fewExamples  = 32 // examples of the first training
	moreExamples = 128
	scoredTexts  = 512
	maxTexts     = 1 << 11
)

// Measure trains on a few examples, and then on more until the difference in time is measurable.
// The first training's model then scores. The trainings replay few steps; the time of further replays is measured separately.
func (p *Pace) Measure(ctx context.Context) (*Seconds, error) {
	var first *trial
	training, err := contracts.Measure(fewExamples, moreExamples, p.Sample.Users*p.Sample.Examples, func(n int) error {
		x, err := p.trained(ctx, n, fewReplays)
		if err == nil && first == nil {
			first = x
		} else if err == nil {
			x.workspace.Remove()
		}
		return err
	})
	if first != nil {
		defer first.workspace.Remove()
	}
	if err != nil {
		return nil, err
	}
	if result, err := first.ended(); err == nil && result.Step == "" {
		replays, err := p.replaying(ctx)
		if err != nil {
			return nil, err
		}
		training.Start += replays
	}
	scoring, err := p.scoring(ctx, first)
	return &Seconds{Start: training.Start, Example: training.Each, Load: scoring.Start, Text: scoring.Each}, err
}

// replaying returns the seconds for the replayed steps beyond fewReplays.
func (p *Pace) replaying(ctx context.Context) (float64, error) {
	if p.Replay == nil || p.Replay.Repeats <= fewReplays {
		return 0, nil
	}
	pace, err := contracts.Measure(fewReplays, min(4*fewReplays, p.Replay.Repeats), p.Replay.Repeats, func(n int) error {
		x, err := p.trained(ctx, fewExamples, n)
		if err == nil {
			x.workspace.Remove()
		}
		return err
	})
	return pace.Each * float64(p.Replay.Repeats-fewReplays), err
}

// Lacks trains for one round on a few examples, checks the step command, and returns a sentence about a missing or
// wrong part of the replay that the job asks for; "" if it finds none. It returns an error if it cannot tell.
func (p *Pace) Lacks(ctx context.Context) (string, error) {
	one := *p
	one.Rounds = 1
	x, err := one.trained(ctx, fewExamples, fewReplays)
	if err == nil {
		defer x.workspace.Remove()
		err = x.stepsOnFew(ctx)
	}
	if v, ok := errors.AsType[*contracts.Violation](err); ok && slices.Contains([]contracts.Rule{TellsOfReplays, StatesItsClaim, StepsByRequest}, v.Rule) {
		return v.Error(), nil
	}
	return "", err
}

// trained trains on about the given number of examples, and replays at most the given number of steps, if the
// job asks for a replay. It kills the command at once when ctx ends.
func (p *Pace) trained(ctx context.Context, examples, replays int) (*trial, error) {
	c := p.Check
	c.brief = true
	if c.Replay != nil {
		c.Replay = &Replay{Repeats: min(c.Replay.Repeats, replays)}
	}
	c.sample = p.Sample
	c.sample.Users, c.sample.Examples = max(1, examples/p.Sample.Examples), min(examples, p.Sample.Examples)
	x, err := c.train(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	if _, err := x.ended(); err != nil {
		x.workspace.Remove()
		return nil, err
	}
	return x, nil
}

// scoring measures the scoring command of a training.
func (p *Pace) scoring(ctx context.Context, x *trial) (contracts.Pace, error) {
	result, err := x.ended()
	if err != nil || result.Score == "" {
		return contracts.Pace{}, err
	}
	return contracts.Measure(1, 1+scoredTexts, maxTexts, func(texts int) error {
		return p.asking(ctx, x, result.Score, p.Scorer, func(client *score.Client) error { return p.score(ctx, client, texts) })
	})
}

// score scores n texts or images.
func (p *Pace) score(ctx context.Context, client *score.Client, n int) error {
	if m := p.Image; m.Classes > 0 {
		images := lists.Make(n, func(i int) []byte { return contracts.Image(m.Pixels(), m.Classes, i) })
		_, err := client.Classify(ctx, ShapeOf(m), images, m.Classes, batch)
		return err
	}
	s, space := &p.Sample, " "
	if s.Symbols {
		space = ""
	}
	pairs := lists.Make(n, func(i int) score.Pair {
		return score.Pair{Context: s.ofLength(i, 1), Continuation: space + s.ofLength(i+1, ScoredWords)}
	})
	if _, err := client.LogLikelihoods(ctx, pairs, batch); err != nil {
		return fmt.Errorf("scoring %d texts: %w", n, err)
	}
	return nil
}
