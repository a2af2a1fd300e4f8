// Package training holds the kinds that change a model's parameters on data:
//
//	training/initial   the initial model: checkpoint 0 of a chain
//	training/clients   the clients of one chunk of a round's cohort, summed
//	training/sgd       a stretch of central SGD steps
//
// A round of federated averaging (McMahan et al. 2017; Thakkar et al. 2020,
// algorithm 1) is Width clients tasks and one aggregation/server task.
package training

import (
	"context"
	"errors"
	"fmt"
	"math"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
)

// Inputs of the training kinds beside tasks.PreviousInput.
const (
	PopulationInput = "population" // datasets/partition
	ShardsInput     = "shards"     // the node whose shards the population's index points into
)

// Local is how a learner takes its steps, on a client or centrally.
type Local struct {
	Optimizer    optimizers.Config `json:"optimizer"`
	LearningRate float64           `json:"learning_rate"`
	// Batch is the number of examples a step sees. A short last batch scales
	// the learning rate by its share of a whole one.
	Batch int `json:"batch"`
	// GradientClip bounds the L2 norm of each batch's gradient; 0 does not. The
	// papers have no such bound.
	GradientClip float64 `json:"gradient_clip,omitempty"`
}

// InitialParams are the parameters of training/initial.
type InitialParams struct {
	Seed  uint64        `json:"seed"`
	Model models.Config `json:"model"`
}

// Initial draws the initial model. It has no inputs.
var Initial = tasks.Kind{Name: "training/initial", Version: 1, Class: tasks.Compute, Run: runInitial}

func runInitial(ctx context.Context, t *tasks.Task) error {
	var p InitialParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	language, err := models.New(p.Model)
	if err != nil {
		return tasks.Permanent(err)
	}
	return checkpoints.Write(ctx, t, language, language.Init(seeds.Stream(p.Seed, seeds.Weights)))
}

// learner takes optimizer steps on one copy of a model. It is reused for many
// clients, so that its buffers are allocated once.
type learner struct {
	local    Local
	trainer  *models.Trainer
	rule     optimizers.Optimizer
	params   []float32
	gradient []float32
}

func newLearner(language *models.Language, local Local) (*learner, error) {
	l := &learner{
		local:    local,
		trainer:  language.NewTrainer(),
		params:   make([]float32, language.Parameters()),
		gradient: make([]float32, language.Parameters()),
	}
	return l, l.reset()
}

// reset forgets what the rule remembers: every client starts afresh.
func (l *learner) reset() error {
	rule, err := optimizers.New(l.local.Optimizer, len(l.params))
	if err != nil {
		return tasks.Permanent(err)
	}
	l.rule = rule
	return nil
}

// step moves the parameters along the gradient of one batch and returns its loss.
func (l *learner) step(batch [][]int32) (models.Loss, error) {
	loss, err := l.trainer.Gradient(l.params, batch, l.gradient)
	if err != nil {
		return loss, err
	}
	l.clipGradient()
	share := float64(len(batch)) / float64(l.local.Batch)
	l.rule.Step(l.params, l.gradient, l.local.LearningRate*share)
	return loss, nil
}

func (l *learner) clipGradient() {
	if l.local.GradientClip == 0 {
		return
	}
	norm := math.Sqrt(kernels.SquaredNorm(l.gradient))
	if scale := privacy.ClipScale(norm, l.local.GradientClip); scale < 1 {
		kernels.Scale(float32(scale), l.gradient)
	}
}

// diverged names the place of a divergence and marks it as beyond repair.
func diverged(err error, where string, args ...any) error {
	if d, ok := errors.AsType[*models.DivergedError](err); ok {
		d.Where = fmt.Sprintf(where, args...)
	}
	return tasks.Permanent(err)
}

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Initial, Clients, SGD} }
