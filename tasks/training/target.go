package training

import (
	"context"
	"fmt"
	"math"

	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// Target ends a training of either algorithm when recall@1 on the ordinary words of the validation
// part is at least RecallAt1, or perplexity at most Perplexity. It is measured at the end of the
// first task that reaches or passes a multiple of Every. The model does not change afterwards:
// later steps are not taken, and clients of later rounds do not train. Its tasks need
// ValidationInput.
type Target struct {
	// RecallAt1 is a share in (0, 1], and Perplexity a number of at least 1. One of the two is 0,
	// which means no target.
	RecallAt1  float64 `json:"recall_at_1,omitempty"`
	Perplexity float64 `json:"perplexity,omitempty"`
	// Every is the number of rounds (SGD steps) between measurements, at least 1.
	Every int `json:"every"`
}

func (target *Target) Validate() error {
	recall := target.RecallAt1 > 0 && target.RecallAt1 <= 1
	perplexity := target.Perplexity >= 1 && !math.IsInf(target.Perplexity, 1)
	switch {
	case target.Every < 1:
		return fmt.Errorf("a target that is measured every %d rounds; expected at least 1", target.Every)
	case recall && target.Perplexity == 0, perplexity && target.RecallAt1 == 0:
		return nil
	}
	return fmt.Errorf("a target recall of %v and perplexity of %v; expected one of the two: a share above 0 and at most 1, or a number of at least 1", target.RecallAt1, target.Perplexity)
}

// PursuitBlob of a training with a Target is a TargetProgress, as JSON, stored with the checkpoint.
const PursuitBlob = "pursuit"

// PerplexityMeasure is the Measure for a target perplexity.
const PerplexityMeasure = "perplexity"

// TargetProgress is the progress of a training towards its Target.
type TargetProgress struct {
	// Measure is PerplexityMeasure, or empty if the Target is a recall@1.
	Measure string `json:"measure,omitempty"`
	// Target is the recall@1 or perplexity to reach.
	Target float64 `json:"target"`
	// MeasuredAt is the round (SGD step) of the last measurement, 0 before the first, and RecallAt1
	// and Perplexity are its values; the perplexity is 0 if it is not the target. Infinite is set
	// if the perplexity is beyond the range of float64; it is then null.
	MeasuredAt int           `json:"measured_at"`
	RecallAt1  float64       `json:"recall_at_1"`
	Perplexity numbers.Float `json:"perplexity,omitempty"`
	Infinite   bool          `json:"infinite,omitempty"`
	// Reached reports whether the target was reached and the training has ended.
	Reached bool `json:"reached"`
}

func (p *TargetProgress) String() string {
	text := p.found() + " that should be reached"
	if p.Reached {
		return text + "; the training ended there"
	}
	return text + ": the training took all its rounds and did not reach it"
}

// found describes the last measurement.
func (p *TargetProgress) found() string {
	if p.Measure == PerplexityMeasure {
		return fmt.Sprintf("perplexity on the validation part was %s after round (sgd: step) %d, of %.4g", numbers.Decimal(p.Perplexity, 2), p.MeasuredAt, p.Target)
	}
	return fmt.Sprintf("recall@1 on the validation part was %.2f%% after round (sgd: step) %d, of %.4g%%", 100*p.RecallAt1, p.MeasuredAt, 100*p.Target)
}

// take records a measurement after a round (SGD step).
func (p *TargetProgress) take(round int, found models.Tally) {
	p.MeasuredAt, p.RecallAt1 = round, found.Recall()
	if p.Measure != PerplexityMeasure {
		p.Reached = p.RecallAt1 >= p.Target
		return
	}
	p.Perplexity = numbers.Float(found.Perplexity())
	p.Infinite, p.Reached = p.Perplexity.Infinite(), float64(p.Perplexity) <= p.Target
}

// TargetTracker tracks a training towards its target. A nil TargetTracker has no target: it is never over and
// measures nothing.
type TargetTracker struct {
	target *Target
	state  TargetProgress
}

// Open reads the state of the previous task; a first task has none.
func (target *Target) Open(ctx context.Context, t *tasks.Task, first bool) (*TargetTracker, error) {
	if target == nil {
		return nil, nil
	}
	if err := target.Validate(); err != nil {
		return nil, tasks.Permanent(err)
	}
	c := &TargetTracker{target, target.begin()}
	if first {
		return c, nil
	}
	if err := t.InputJSON(ctx, tasks.PreviousInput, PursuitBlob, &c.state); err != nil {
		return nil, err
	}
	return c, nil
}

// begin returns the progress before the first measurement.
func (target *Target) begin() TargetProgress {
	if target.Perplexity > 0 {
		return TargetProgress{Measure: PerplexityMeasure, Target: target.Perplexity}
	}
	return TargetProgress{Target: target.RecallAt1}
}

// Over reports whether the target was reached before this task.
func (c *TargetTracker) Over() bool { return c != nil && c.state.Reached }

// Watch measures the model after the rounds (SGD steps) that follow the first ones, up to and with
// the last, if a measurement is due. It writes the state for the next task, and returns the
// validation loss in nats per token, 0 if not measured.
func (c *TargetTracker) Watch(ctx context.Context, t *tasks.Task, model *checkpoints.Model, first, last int) (loss float64, err error) {
	if c == nil {
		return 0, nil
	}
	if first/c.target.Every < last/c.target.Every {
		found, err := validate(ctx, t, model)
		if err != nil {
			return 0, err
		}
		if found.Counted.Tokens == 0 {
			return 0, tasks.Permanent(population.NothingToPredict(population.Validation, true))
		}
		c.state.take(last, found.Counted)
		loss = found.All.Loss / float64(found.All.Tokens)
	}
	return loss, c.Write(ctx, t)
}

// Write stores the state for the next task.
func (c *TargetTracker) Write(ctx context.Context, t *tasks.Task) error {
	if c == nil {
		return nil
	}
	return t.PutJSON(ctx, PursuitBlob, c.state)
}

// pass ends a task of central training after the target was reached.
func (c *TargetTracker) pass(ctx context.Context, t *tasks.Task, end int) error {
	model, err := t.Blob(ctx, tasks.PreviousInput, tasks.ModelBlob)
	if err != nil {
		return err
	}
	if err := t.Put(ctx, tasks.ModelBlob, model); err != nil {
		return err
	}
	if err := c.Write(ctx, t); err != nil {
		return err
	}
	return checkpoints.AppendRow(ctx, t, checkpoints.Row{Round: int64(end), Spending: checkpoints.Spending{Stopped: true}})
}

// validationBlock is the number of sentences decoded at a time. It does not affect any result.
const validationBlock = 4096

// validate evaluates a model on the ordinary words of the validation part.
func validate(ctx context.Context, t *tasks.Task, model *checkpoints.Model) (total models.Evaluation, err error) {
	part, err := population.OpenPart(ctx, t, ValidationInput, population.Validation)
	if err != nil {
		return total, err
	}
	scorer, err := model.NewScorer()
	if err != nil {
		return total, tasks.Permanent(err)
	}
	ordinary := func(target int32) bool { return target >= text.FirstWord }
	for from := 0; from < part.Records(); from += validationBlock {
		sentences, err := part.ReadRecords(ctx, from, min(from+validationBlock, part.Records()))
		if err != nil {
			return total, err
		}
		block, err := scorer.Evaluate(sentences, ordinary)
		if err != nil {
			return total, tasks.Permanent(fmt.Errorf("validation part: %w", err))
		}
		total = total.Add(block)
	}
	if total.All.Tokens == 0 {
		return total, tasks.Permanent(population.NothingToPredict(population.Validation, false))
	}
	return total, nil
}
