package training

import (
	"context"
	"encoding/json"
	"fmt"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
)

// Target ends a training of either algorithm when the model is as useful as that: when its
// recall@1 on the ordinary words of the validation part is at least RecallAt1. It is measured
// at the end of the first task that reaches or passes a multiple of Every. The model stays
// as it is from then on: later steps are not taken, and clients of later rounds do not train.
// Tasks of it need ValidationInput.
type Target struct {
	// RecallAt1 is a share in (0, 1].
	RecallAt1 float64 `json:"recall_at_1"`
	// Every so many rounds (SGD steps), at least 1, the recall is measured.
	Every int `json:"every"`
}

// PursuitBlob of a training with a Target is a Pursuit, as JSON. It stands beside the
// checkpoint.
const PursuitBlob = "pursuit"

// Pursuit says how far a training with a Target has come.
type Pursuit struct {
	// Target is the recall@1 that is to be reached.
	Target float64 `json:"target"`
	// MeasuredAt is the round (SGD step) of the last measurement, 0 before the first, and
	// RecallAt1 what it has found.
	MeasuredAt int     `json:"measured_at"`
	RecallAt1  float64 `json:"recall_at_1"`
	// Reached says that this is the target or more, and that the training has ended there.
	Reached bool `json:"reached"`
}

// String is a sentence for people.
func (p *Pursuit) String() string {
	text := fmt.Sprintf("recall@1 on the validation part was %.2f%% after round (sgd: step) %d, of %.4g%% that should be reached", 100*p.RecallAt1, p.MeasuredAt, 100*p.Target)
	if p.Reached {
		return text + "; the training ended there"
	}
	return text + ": the training took all its rounds and did not reach it"
}

// Chase follows a training towards its target. A nil one has none: it is never over and
// measures nothing.
type Chase struct {
	target *Target
	state  Pursuit
}

// Open reads what the task before has handed on. A first task has none before it.
func (target *Target) Open(ctx context.Context, t *tasks.Task, first bool) (*Chase, error) {
	if target == nil {
		return nil, nil
	}
	if target.Every < 1 || !(target.RecallAt1 > 0 && target.RecallAt1 <= 1) {
		return nil, tasks.Permanent(fmt.Errorf("a target recall of %v, measured every %d rounds; expected a share above 0 and at most 1, and at least 1 round", target.RecallAt1, target.Every))
	}
	c := &Chase{target, Pursuit{Target: target.RecallAt1}}
	if first {
		return c, nil
	}
	data, err := t.Blob(ctx, tasks.PreviousInput, PursuitBlob)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &c.state); err != nil {
		return nil, tasks.Permanent(fmt.Errorf("%s: %w", PursuitBlob, err))
	}
	return c, nil
}

// Over reports whether the target was reached before this task.
func (c *Chase) Over() bool { return c != nil && c.state.Reached }

// Watch measures the model after the rounds (SGD steps) that follow the first ones, up to and
// with the last, if its turn has come. It hands on what the next task needs, and returns the
// validation loss in nats a token, 0 if none was measured.
func (c *Chase) Watch(ctx context.Context, t *tasks.Task, model *checkpoints.Model, first, last int) (loss float64, err error) {
	if c == nil {
		return 0, nil
	}
	if first/c.target.Every < last/c.target.Every {
		found, err := validate(ctx, t, model)
		if err != nil {
			return 0, err
		}
		if found.Counted.Tokens == 0 {
			return 0, tasks.Permanent(fmt.Errorf("the validation part has no word of the vocabulary: raise data.validation.fraction"))
		}
		c.state.take(last, found.Counted.Recall())
		loss = found.All.Loss / float64(found.All.Tokens)
	}
	return loss, c.Write(ctx, t)
}

// take notes a measurement.
func (p *Pursuit) take(round int, recall float64) {
	p.MeasuredAt, p.RecallAt1, p.Reached = round, recall, recall >= p.Target
}

// Write hands on what the next task needs.
func (c *Chase) Write(ctx context.Context, t *tasks.Task) error {
	if c == nil {
		return nil
	}
	return t.PutJSON(ctx, PursuitBlob, c.state)
}

// pass ends a task of central training after the target was reached.
func (c *Chase) pass(ctx context.Context, t *tasks.Task, end int) error {
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

// validationBlock is how many sentences are decoded at a time. It does not show in any
// result.
const validationBlock = 4096

// validate evaluates a model on the validation part, whose ordinary words are counted.
func validate(ctx context.Context, t *tasks.Task, model *checkpoints.Model) (total models.Evaluation, err error) {
	part, err := datasets.OpenPart(ctx, t, ValidationInput, datasets.Validation)
	if err != nil {
		return total, err
	}
	scorer, err := model.NewScorer()
	if err != nil {
		return total, tasks.Permanent(err)
	}
	ordinary := func(target int32) bool { return target >= datasets.FirstWord }
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
		return total, tasks.Permanent(fmt.Errorf("the validation part is empty: raise data.validation.fraction"))
	}
	return total, nil
}
