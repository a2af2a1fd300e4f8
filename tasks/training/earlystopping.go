package training

import (
	"context"
	"fmt"

	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
)

// EarlyStopping ends central training when the loss on the validation part no longer
// falls (Carlini et al. 2019, section 2.3: minimum validation loss). The loss is the mean over all
// targets, in nats per token, and is measured at the end of the first task that reaches or passes a
// multiple of Every. The tasks after the stop take no step.
type EarlyStopping struct {
	// Every is the number of SGD steps between measurements of the loss, at least 1.
	Every int `json:"every"`
	// Patience is the number of consecutive measurements without a new minimum before the stop, at
	// least 1.
	Patience int `json:"patience"`
}

// ValidationInput of a training with early stopping or a Target is datasets/encode.
const ValidationInput = "validation"

// Blobs that a training with early stopping stores with the checkpoint.
const (
	// StoppingBlob is a Stopping, as JSON.
	StoppingBlob = "early-stopping"
	// BestModelBlob is the model of the least validation loss so far, a model file.
	BestModelBlob = "best-model"
)

// Stopping is the progress of a training with early stopping.
type Stopping struct {
	// BestStep is the SGD step with the least validation loss, 0 before the first measurement;
	// ValidationLoss is that loss, in nats per token.
	BestStep       int     `json:"best_step"`
	ValidationLoss float64 `json:"validation_loss"`
	// SinceBest counts the measurements after BestStep.
	SinceBest int `json:"since_best"`
	// StoppedAt is the SGD step at which Patience ran out; 0 if it did not.
	StoppedAt int `json:"stopped_at"`
}

func (s *Stopping) String() string {
	text := fmt.Sprintf("early stopping took the model after step %d, whose validation loss of %.4g nats a token was least", s.BestStep, s.ValidationLoss)
	if s.StoppedAt > 0 {
		return fmt.Sprintf("%s, and ended the training after step %d", text, s.StoppedAt)
	}
	return text + "; the training took all its steps"
}

// stopping tracks the validation loss of a training; nil does nothing.
type stopping struct {
	params *EarlyStopping
	state  Stopping
	best   []byte // BestModelBlob
}

// openStopping reads the state of the previous task.
func openStopping(ctx context.Context, t *tasks.Task, p *SGDParams) (*stopping, error) {
	if p.EarlyStopping == nil {
		return nil, nil
	}
	s := &stopping{params: p.EarlyStopping}
	if s.params.Every < 1 || s.params.Patience < 1 {
		return nil, tasks.Permanent(fmt.Errorf("early stopping every %d steps with a patience of %d; expected at least 1 of both", s.params.Every, s.params.Patience))
	}
	if first, _ := p.bounds(t.Step); first == 0 {
		return s, nil
	}
	err := t.InputJSON(ctx, tasks.PreviousInput, StoppingBlob, &s.state)
	if err == nil && s.state.BestStep > 0 {
		s.best, err = t.Blob(ctx, tasks.PreviousInput, BestModelBlob)
	}
	return s, err
}

// over reports whether the training had stopped before this task.
func (s *stopping) over() bool { return s != nil && s.state.StoppedAt > 0 }

// pass ends a task after the stop: its checkpoint is the best one.
func (s *stopping) pass(ctx context.Context, t *tasks.Task, p *SGDParams) error {
	if err := t.Put(ctx, tasks.ModelBlob, s.best); err != nil {
		return err
	}
	if err := s.write(ctx, t); err != nil {
		return err
	}
	_, end := p.bounds(t.Step)
	return checkpoints.AppendRow(ctx, t, checkpoints.Row{Round: int64(end), Spending: checkpoints.Spending{Stopped: true}})
}

// watch measures the model after a task's steps, if a measurement is due, and writes the state for
// the next task. It returns the loss, 0 if not measured.
func (s *stopping) watch(ctx context.Context, t *tasks.Task, after *stretch) (float64, error) {
	if s == nil {
		return 0, nil
	}
	if after.first/s.params.Every == after.end/s.params.Every {
		return 0, s.write(ctx, t)
	}
	model := after.after()
	found, err := validate(ctx, t, model)
	if err != nil {
		return 0, err
	}
	loss := found.All.Loss / float64(found.All.Tokens)
	if s.take(loss, after.end) {
		if s.best, err = model.Encode(); err != nil {
			return 0, err
		}
	}
	return loss, s.write(ctx, t)
}

// take records a measurement, and reports whether it is the best so far.
func (s *stopping) take(loss float64, step int) bool {
	if s.state.BestStep == 0 || loss < s.state.ValidationLoss {
		s.state.BestStep, s.state.ValidationLoss, s.state.SinceBest = step, loss, 0
		return true
	}
	if s.state.SinceBest++; s.state.SinceBest >= s.params.Patience {
		s.state.StoppedAt = step
	}
	return false
}

func (s *stopping) write(ctx context.Context, t *tasks.Task) error {
	if err := t.PutJSON(ctx, StoppingBlob, s.state); err != nil || s.state.BestStep == 0 {
		return err
	}
	return t.Put(ctx, BestModelBlob, s.best)
}

// Best ends a training with early stopping: its checkpoint is the model of the least validation
// loss, whether the patience or the steps ran out. It has no parameters. Input tasks.PreviousInput:
// the last training/sgd. Its metrics are a Stopping.
var Best = tasks.Kind{Name: "training/best", Version: 1, Class: tasks.Compute, Run: runBest}

func runBest(ctx context.Context, t *tasks.Task) error {
	var state Stopping
	if err := t.InputJSON(ctx, tasks.PreviousInput, StoppingBlob, &state); err != nil {
		return err
	}
	if state.BestStep == 0 {
		return tasks.Permanent(fmt.Errorf("early stopping has measured no loss; expected training.early_stopping.every to be at most the steps of the training"))
	}
	model, err := t.Blob(ctx, tasks.PreviousInput, BestModelBlob)
	if err != nil {
		return err
	}
	if err := t.Put(ctx, tasks.ModelBlob, model); err != nil {
		return err
	}
	return t.SetMetrics(state)
}
