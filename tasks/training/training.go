// Package training holds the kinds that change a model's parameters on data:
//
//	training/initial         the initial model: checkpoint 0 of a chain
//	training/client-initial  the same, of a program that trains clients
//	training/clients         the clients of one chunk of a round's cohort, summed
//	training/sgd             a stretch of central SGD steps
//	training/dp-sgd          the same with clipped and noised gradients
//	training/quantize        a trained model with its weights rounded to few bits
//	training/best            the best model of a training with early stopping
//	training/losses          the loss of each record under a model
//
// A round of federated averaging (McMahan et al. 2017; Thakkar et al. 2020,
// algorithm 1) has a clients task for each chunk and one aggregation/server task.
package training

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/memory"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
)

// Inputs of the training kinds in addition to tasks.PreviousInput.
const (
	PopulationInput = "population" // datasets/partition
	ShardsInput     = "shards"     // the node with the shards of the population's index
)

// Local describes the steps of a learner, on a client or centrally.
type Local struct {
	Optimizer    optimizers.Config `json:"optimizer"`
	LearningRate float64           `json:"learning_rate"`
	// Schedule changes the learning rate between rounds (steps of central training); nil keeps it
	// constant.
	Schedule *optimizers.Schedule `json:"schedule,omitempty"`
	// Batch is the number of examples in a step. A short last batch scales the learning rate by its
	// share of a full batch.
	Batch int `json:"batch"`
	// GradientClip bounds the L2 norm of each batch's gradient; 0 means no bound, as in the papers.
	GradientClip float64 `json:"gradient_clip,omitempty"`
	// Dropout is the probability that an element of a layer's output is dropped
	// in training (models.Trainer.UseDropout).
	Dropout float64 `json:"dropout,omitempty"`
	// WeightDecay w multiplies all parameters by 1 - rate*w before each step, rate being the step's
	// learning rate: decay independent of the gradient, and so of the state of the rule (Loshchilov
	// and Hutter, "Decoupled Weight Decay Regularization", 2019).
	WeightDecay float64 `json:"weight_decay,omitempty"`
	// Proximal mu adds mu/2 times the squared L2 distance from the round's model
	// to a client's loss (Li et al., "Federated Optimization in Heterogeneous Networks", 2020,
	// equation 2: FedProx). GradientClip does not include it.
	Proximal float64 `json:"proximal,omitempty"`
}

// Rate returns the learning rate of a round (a step of central training), counted from 0.
func (l *Local) Rate(step int) float64 {
	if l.Schedule == nil {
		return l.LearningRate
	}
	return l.Schedule.Rate(l.LearningRate, step)
}

// InitialParams are the parameters of training/initial.
type InitialParams struct {
	Seed  uint64        `json:"seed"`
	Model models.Config `json:"model"`
	// Checkpoint is the digest of an imported model file to start from; zero draws the model. With
	// Adapters it has the frozen parameters only.
	Checkpoint storage.Digest `json:"checkpoint,omitzero"`
	// FrozenApart makes this and all later checkpoints refer to Checkpoint for the frozen parameters,
	// instead of copying them.
	FrozenApart bool `json:"frozen_apart,omitempty"`
}

// Initial draws the initial model, or reads an imported one. It has no inputs.
var Initial = tasks.Kind{Name: "training/initial", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runInitial)}

func runInitial(ctx context.Context, t *tasks.Task, p *InitialParams) error {
	network, err := checkpoints.NewNetwork(p.Model)
	if err != nil {
		return tasks.Permanent(err)
	}
	if p.Checkpoint != (storage.Digest{}) {
		model, err := importedModel(ctx, t, network, p)
		if err != nil {
			return err
		}
		return model.Write(ctx, t, model.Params)
	}
	return checkpoints.Write(ctx, t, network, network.Init(seeds.Stream(p.Seed, seeds.Weights)))
}

// importedModel reads the parameters of an imported model file, which must match the network without
// its adapters, and draws the adapters.
func importedModel(ctx context.Context, t *tasks.Task, network models.Network, p *InitialParams) (*checkpoints.Model, error) {
	frozen, err := checkpoints.NewNetwork(p.Model.Frozen())
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	model := &checkpoints.Model{Network: network}
	if p.FrozenApart {
		model.Frozen = p.Checkpoint
	}
	if model.Params, err = checkpoints.Imported(ctx, t, frozen, p.Checkpoint); err != nil {
		return nil, err
	}
	if adapters := network.Parameters() - frozen.Parameters(); adapters > 0 {
		params := network.Init(seeds.Stream(p.Seed, seeds.Weights))
		copy(params[adapters:], model.Params)
		model.Params = params
	}
	return model, nil
}

// learner takes optimizer steps on one copy of a model. It is reused for many clients, to allocate
// its buffers once.
type learner struct {
	local    Local
	trainer  models.Learner
	rule     optimizers.Optimizer
	params   []float32
	gradient []float32
	anchor   []float32 // parameters of the round's model, for the proximal term
}

// newLearner returns a learner for the trained parameters of a model.
func newLearner(model *checkpoints.Model, local Local) (*learner, error) {
	return newLearnerWith(model.Network, model.Params[model.Network.Trained():], local)
}

// newLearnerWith returns a learner for a network with fixed parameters after the trained ones.
func newLearnerWith(network models.Network, fixed []float32, local Local) (*learner, error) {
	if local.Schedule != nil {
		if err := local.Schedule.Validate(); err != nil {
			return nil, tasks.Permanent(err)
		}
	}
	trained := network.Trained()
	l := &learner{
		local:    local,
		trainer:  network.NewLearner(fixed),
		params:   memory.Floats(trained),
		gradient: memory.Floats(trained),
	}
	return l, l.reset()
}

// reset clears the state of the rule, for a new client.
func (l *learner) reset() error {
	rule, err := optimizers.New(l.local.Optimizer, len(l.params))
	if err != nil {
		return tasks.Permanent(err)
	}
	l.rule = rule
	return nil
}

// drop makes later steps draw their dropout from the stream of the given indices.
func (l *learner) drop(seed uint64, indices ...uint64) error {
	if l.local.Dropout == 0 {
		return nil
	}
	dropping, ok := l.trainer.(models.Dropping)
	if !ok {
		return tasks.Permanent(fmt.Errorf("dropout of %v: the model has no layers that it is for", l.local.Dropout))
	}
	return tasks.Permanent(dropping.UseDropout(l.local.Dropout, seeds.Stream(seed, seeds.Dropout, indices...)))
}

// draw makes later steps draw their other numbers from the stream of the given indices.
func (l *learner) draw(seed uint64, indices ...uint64) {
	if drawing, ok := l.trainer.(models.Drawing); ok {
		drawing.UseStream(seeds.Stream(seed, seeds.Fakes, indices...))
	}
}

// step moves the parameters along the gradient of one batch and returns its loss. A short batch
// uses its share of the learning rate.
func (l *learner) step(batch [][]int32, rate float64) (models.Loss, error) {
	loss, err := l.trainer.Gradient(l.params, batch, l.gradient)
	if err != nil {
		return loss, err
	}
	if err := l.clipGradient(); err != nil {
		return loss, err
	}
	l.pullToAnchor()
	share := float64(len(batch)) / float64(l.local.Batch)
	l.decayWeights(rate * share)
	l.rule.Step(l.params, l.gradient, rate*share)
	if tracking, ok := l.trainer.(models.Tracking); ok {
		tracking.Track(l.params)
	}
	return loss, nil
}

// pullToAnchor adds the gradient of the proximal term, mu (params - anchor).
func (l *learner) pullToAnchor() {
	if mu := float32(l.local.Proximal); mu > 0 {
		kernels.Axpy(mu, l.params, l.gradient)
		kernels.Axpy(-mu, l.anchor, l.gradient)
	}
}

func (l *learner) decayWeights(rate float64) {
	if l.local.WeightDecay > 0 {
		kernels.Scale(float32(1-rate*l.local.WeightDecay), l.params)
	}
}

// clipGradient bounds the gradient. A gradient that is not finite is an error.
func (l *learner) clipGradient() error {
	if l.local.GradientClip == 0 {
		return nil
	}
	norm, err := models.FiniteNorm("gradient", l.gradient)
	if err != nil {
		return err
	}
	if scale := privacy.ClipScale(norm, l.local.GradientClip); scale < 1 {
		kernels.Scale(float32(scale), l.gradient)
	}
	return nil
}

// diverged adds the place to a divergence and marks it as permanent.
func diverged(err error, where string, args ...any) error {
	if d, ok := errors.AsType[*models.DivergedError](err); ok {
		d.Where = fmt.Sprintf(where, args...)
	}
	return tasks.Permanent(err)
}

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind {
	return []tasks.Kind{Initial, Clients, SGD, DPSGD, Best, Quantize, Losses, ClientInitial}
}

// ModelInput is the checkpoint that Quantize reads.
const ModelInput = "model"

// QuantizeParams are the parameters of training/quantize.
type QuantizeParams struct {
	// Bits is the number of bits for each parameter, 2 to 8.
	Bits int `json:"bits"`
}

// Quantize rounds the weights of a trained model to few bits (models.Quantize; Carlini et al. 2019,
// section 9.1.3). It writes an ordinary checkpoint in float32, so that every audit can measure it.
var Quantize = tasks.Kind{Name: "training/quantize", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runQuantize)}

func runQuantize(ctx context.Context, t *tasks.Task, p *QuantizeParams) error {
	model, err := checkpoints.Read(ctx, t, ModelInput)
	if err != nil {
		return err
	}
	params := slices.Clone(model.Params)
	if err := models.Quantize(model.Network, params, p.Bits); err != nil {
		return tasks.Permanent(err)
	}
	return checkpoints.Write(ctx, t, model.Network, params)
}

// Losses scores every record of a population: the mean loss over its targets, including the end, in
// nats per token.
//
// Inputs: ModelInput, PopulationInput, ShardsInput. It has no parameters. Blobs:
//
//	losses   population.LossesBlob
var Losses = tasks.Kind{Name: "training/losses", Version: 1, Class: tasks.Compute, Run: runLosses}

// lossesBlock is the number of sentences decoded at a time. It does not affect any result.
const lossesBlock = 4096

func runLosses(ctx context.Context, t *tasks.Task) error {
	scorer, err := checkpoints.ReadScorer(ctx, t, ModelInput)
	if err != nil {
		return err
	}
	pop, err := population.Open(ctx, t, PopulationInput, ShardsInput)
	if err != nil {
		return err
	}
	n := pop.Records()
	losses := make([]float64, 0, n)
	for from := 0; from < n; from += lossesBlock {
		sentences, err := pop.ReadRecords(ctx, from, min(from+lossesBlock, n))
		if err != nil {
			return err
		}
		block, err := scorer.MeanLosses(sentences)
		if err != nil {
			return tasks.Permanent(fmt.Errorf("records from %d on: %w", from, err))
		}
		losses = append(losses, block...)
		t.Progress(tasks.Progress{Done: int64(len(losses)), Total: int64(n)})
	}
	return t.Put(ctx, population.LossesBlob, population.EncodeLosses(losses))
}
