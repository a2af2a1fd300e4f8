// Package aggregation holds the server's step of a round of federated
// averaging: the kind aggregation/server.
package aggregation

import (
	"context"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
)

// ServerParams are the parameters of aggregation/server. The task's Step is the round.
type ServerParams struct {
	Seed   uint64 `json:"seed"`
	Chunks int    `json:"chunks"`
	// Cohort is the size of a round's cohort, the expected size under Poisson sampling; clipped
	// sums are divided by it.
	Cohort int `json:"cohort"`
	// Clip is the bound on the clients' updates, 0 if there is none; with a clip, clients have
	// equal weights.
	Clip float64 `json:"clip,omitempty"`
	// NoiseMultiplier z adds Gaussian noise of standard deviation z*Clip to the sum of the updates,
	// or z*Clip/Cohort to their mean.
	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"`
	// NoiseBy is privacy.ByDevices if the clients have added that noise: the server adds none, but
	// still accounts for it.
	NoiseBy      privacy.NoiseBy   `json:"noise_by,omitempty"`
	Optimizer    optimizers.Config `json:"optimizer"`
	LearningRate float64           `json:"learning_rate"`
	// Schedule changes the learning rate between rounds; nil keeps it constant.
	Schedule *optimizers.Schedule `json:"schedule,omitempty"`
	// Adaptive makes Clip apply only to the first round: the server then moves it towards a
	// quantile of the norms, and NoiseMultiplier is the total of the noise on the updates and on
	// the count behind the quantile.
	Adaptive *privacy.ClipQuantile `json:"adaptive,omitempty"`
	// Mechanism correlates the noise of the rounds; nil leaves it independent. NoiseMultiplier
	// refers to the underlying independent noise.
	Mechanism *correlated.Mechanism `json:"mechanism,omitempty"`
	// Secret, if set, draws the noise instead of Seed.
	Secret *tasks.Secret `json:"secret,omitempty"`
	// Guarantee accounts for the noise; nil without noise.
	Guarantee *training.Guarantee `json:"guarantee,omitempty"`
	// Generator is trained after each round; nil if the model has none.
	Generator *Generator `json:"generator,omitempty"`
	// Record selects the recorded parts of the clients' updates; nil records none.
	Record *updates.Recording `json:"record,omitempty"`
	// StopAt ends the training when the model reaches the target; nil runs all rounds. It needs
	// training.ValidationInput.
	StopAt *training.Target `json:"stop_at,omitempty"`
	// Watch follows the noisy mean updates along the vectors of canary clients; nil follows
	// nothing.
	Watch *canaries.Watch `json:"watch,omitempty"`
	// Control is a deliberate fault of the training; empty for none. The account and the noise in
	// metric rows ignore the fault.
	Control privacy.Control `json:"control,omitempty"`
}

// Rate returns the learning rate of a round, counted from 1.
func (p *ServerParams) Rate(round int) float64 {
	if p.Schedule == nil {
		return p.LearningRate
	}
	return p.Schedule.Rate(p.LearningRate, round-1)
}

// Server averages the clients' updates, adds noise if configured, applies the server's optimizer
// and writes the round's checkpoint (Thakkar et al. 2020, algorithm 1; Reddi et al. 2021, algorithm
// 2). The chunks' sums are added in order, in float64. Noise comes before the optimizer. With a
// Guarantee the metric row holds the cost of the rounds so far, and a round beyond the budget, or
// after StopAt was reached, changes nothing. The updates of a recorded round are stored with its
// checkpoint, one shard per chunk.
var Server = tasks.Kind{Name: "aggregation/server", Version: 2, Class: tasks.Compute, Run: tasks.WithParams(runServer)}

func runServer(ctx context.Context, t *tasks.Task, p *ServerParams) error {
	if p.Schedule != nil {
		if err := p.Schedule.Validate(); err != nil {
			return tasks.Permanent(err)
		}
	}
	model, err := checkpoints.Read(ctx, t, tasks.PreviousInput)
	if err != nil {
		return err
	}
	account, err := openLedger(ctx, t, p)
	if err != nil {
		return err
	}
	if err := p.adapt(ctx, t); err != nil {
		return err
	}
	target, err := p.StopAt.Open(ctx, t, t.Step == 1)
	if err != nil {
		return err
	}
	r := round{params: p, account: account, target: target, sum: make([]float64, model.Network.Trained())}
	if account.Allowed(t.Step) < t.Step || target.Over() {
		return r.stop(ctx, t, model)
	}
	for j := range p.Chunks {
		if err := r.addChunk(ctx, t, j); err != nil {
			return err
		}
	}
	mean := r.mean()
	if err := r.addWatchedNoise(ctx, t, mean); err != nil {
		return err
	}
	params, err := r.apply(ctx, t, model, mean)
	if err != nil {
		return err
	}
	if err := p.Generator.train(ctx, t, p.Seed, model.Network, params); err != nil {
		return err
	}
	if err := model.Write(ctx, t, params); err != nil {
		return err
	}
	if err := r.moveClip(ctx, t); err != nil {
		return err
	}
	if err := p.keepUpdates(ctx, t); err != nil {
		return err
	}
	row := r.row(t.Step, model.Params[:len(mean)], params[:len(mean)])
	after := &checkpoints.Model{Network: model.Network, Params: params}
	if row.ValidationLoss, err = target.Watch(ctx, t, after, t.Step-1, t.Step); err != nil {
		return err
	}
	return checkpoints.AppendRow(ctx, t, row)
}

// noiseDeviation returns the standard deviation of the noise on the mean update; with a mechanism,
// of the underlying independent noise.
func (p *ServerParams) noiseDeviation() float64 {
	return privacy.MeanNoise(p.NoiseMultiplier, p.Clip, p.Cohort)
}

// round adds up the updates of a round's clients.
type round struct {
	params  *ServerParams
	account *training.Ledger
	target  *training.TargetTracker
	sum     []float64
	norms   []float32 // norms of all clients' updates before clipping
	chunks  training.ChunkMetrics
}

func (r *round) addChunk(ctx context.Context, t *tasks.Task, j int) error {
	input := tasks.PartInput(j)
	data, err := t.Blob(ctx, input, training.SumBlob)
	if err != nil {
		return err
	}
	file, err := safetensors.Unmarshal(data)
	if err != nil {
		return tasks.Permanent(fmt.Errorf("sum of chunk %d: %w", j, err))
	}
	var m training.ChunkMetrics
	if err := t.InputMetrics(ctx, input, &m); err != nil {
		return err
	}
	sum, ok := file.Tensor(training.SumTensor)
	if !ok || len(sum.Float32) != len(r.sum) {
		return tasks.Permanent(fmt.Errorf("sum of chunk %d has %d elements, want %d", j, len(sum.Float32), len(r.sum)))
	}
	norms, ok := file.Tensor(training.NormsTensor)
	if !ok || int64(len(norms.Float32)) != m.Clients {
		return tasks.Permanent(fmt.Errorf("chunk %d has the norms of %d updates, want those of its %d clients", j, len(norms.Float32), m.Clients))
	}
	for i, v := range sum.Float32 {
		r.sum[i] += float64(v)
	}
	r.norms = append(r.norms, norms.Float32...)
	r.chunks.Add(m)
	return nil
}

// mean divides the sum: by the cohort's (expected) size if the updates were clipped, by the
// examples otherwise. Without clients the mean is zero.
func (r *round) mean() []float32 {
	divisor := r.chunks.Weight
	if r.params.Clip > 0 {
		divisor = float64(r.params.Cohort)
	}
	mean := make([]float32, len(r.sum))
	if divisor == 0 {
		return mean
	}
	for i, v := range r.sum {
		mean[i] = float32(v / divisor)
	}
	return mean
}

// addWatchedNoise adds the noise to the mean, and follows the released sum along the vectors of canaries.
func (r *round) addWatchedNoise(ctx context.Context, t *tasks.Task, mean []float32) error {
	watched, err := r.params.Watch.Open(ctx, t, r.params.Seed, t.Step <= 1)
	if err != nil {
		return err
	}
	others, members, err := r.others(ctx, t, watched, mean)
	if err != nil {
		return err
	}
	if err := r.params.addNoise(ctx, t, mean); err != nil {
		return err
	}
	watched.Observe(mean, others, members)
	return watched.Write(ctx, t)
}

// others returns the inner products of the canaries' vectors with the sum of all updates except the
// canaries', and the canaries of the round with their contributions; nil unless the watch needs
// evidence.
func (r *round) others(ctx context.Context, t *tasks.Task, watched *canaries.Following, mean []float32) (products []float64, members map[int]float64, err error) {
	if products = watched.Products(mean); products == nil {
		return nil, nil, nil
	}
	members = map[int]float64{}
	for i := range products {
		products[i] *= float64(r.params.Cohort)
	}
	for j := range r.params.Chunks {
		var sent map[int]float64
		if err := t.InputJSON(ctx, tasks.PartInput(j), training.CanariesBlob, &sent); err != nil {
			return nil, nil, err
		}
		for canary, length := range sent {
			products[canary] -= length
			members[canary] = length
		}
	}
	return products, members, nil
}

// apply takes the server optimizer's step along the pseudo-gradient, which is minus the mean
// update, and stores the optimizer's state.
func (r *round) apply(ctx context.Context, t *tasks.Task, model *checkpoints.Model, mean []float32) ([]float32, error) {
	rule, err := optimizers.New(r.params.Optimizer, len(mean))
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	if t.Step > 1 {
		if err := checkpoints.ReadOptimizer(ctx, t, rule); err != nil {
			return nil, err
		}
	}
	kernels.Scale(-1, mean)
	params := slices.Clone(model.Params)
	rule.Step(params[:len(mean)], mean, r.params.Rate(t.Step))
	if _, err := models.FiniteNorm("model after the server's step", params); err != nil {
		return nil, tasks.Permanent(fmt.Errorf("round %d: %w", t.Step, err))
	}
	return params, checkpoints.WriteOptimizer(ctx, t, rule)
}

// stop ends a round beyond the budget or after the target: model and optimizer do not change, and
// the clients' updates are not used.
func (r *round) stop(ctx context.Context, t *tasks.Task, model *checkpoints.Model) error {
	if err := model.Write(ctx, t, model.Params); err != nil {
		return err
	}
	rule, err := optimizers.New(r.params.Optimizer, len(r.sum))
	if err != nil {
		return tasks.Permanent(err)
	}
	if t.Step > 1 {
		if err := checkpoints.ReadOptimizer(ctx, t, rule); err != nil {
			return err
		}
	}
	if err := checkpoints.WriteOptimizer(ctx, t, rule); err != nil {
		return err
	}
	if err := r.params.keepBuffers(ctx, t); err != nil {
		return err
	}
	watched, err := r.params.Watch.Open(ctx, t, r.params.Seed, t.Step <= 1)
	if err != nil {
		return err
	}
	if err := watched.Write(ctx, t); err != nil {
		return err
	}
	if r.params.Adaptive != nil {
		if err := checkpoints.WriteClip(ctx, t, r.params.Clip); err != nil {
			return err
		}
	}
	if err := r.params.keepNone(ctx, t, model.Network); err != nil {
		return err
	}
	if err := r.target.Write(ctx, t); err != nil {
		return err
	}
	row := checkpoints.Row{Round: int64(t.Step), Spending: checkpoints.Spending{Stopped: true}}
	r.account.Charge(&row)
	return checkpoints.AppendRow(ctx, t, row)
}

func (r *round) row(step int, before, after []float32) checkpoints.Row {
	change := append([]float32(nil), after...)
	kernels.Axpy(-1, before, change)
	row := checkpoints.Row{
		Round:          int64(step),
		Clients:        r.chunks.Clients,
		Examples:       r.chunks.Examples,
		Tokens:         r.chunks.Tokens,
		UpdateNorm:     math.Sqrt(kernels.SquaredNorm(change)),
		NoiseDeviation: r.params.noiseDeviation(),
		Norms:          checkpoints.QuantilesOf(r.norms),
	}
	row.Clip = r.params.Clip
	if r.chunks.Tokens > 0 {
		row.Loss = r.chunks.LossSum / float64(r.chunks.Tokens)
	}
	if r.chunks.Clients > 0 {
		row.ClientNorm = r.chunks.NormSum / float64(r.chunks.Clients)
		row.Clipped = float64(r.chunks.Clipped) / float64(r.chunks.Clients)
	}
	r.account.Charge(&row)
	return row
}

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Server} }

// PopulationInput of aggregation/server is the datasets/partition node that cohorts are drawn from.
// It is present only with a Guarantee.
const PopulationInput = "population"

// openLedger prepares the account; nil without a guarantee.
func openLedger(ctx context.Context, t *tasks.Task, p *ServerParams) (*training.Ledger, error) {
	if p.Guarantee == nil {
		return nil, nil
	}
	pop, err := t.Input(PopulationInput)
	if err != nil {
		return nil, err
	}
	var counts population.PartitionMetrics
	if err := t.InputMetrics(ctx, PopulationInput, &counts); err != nil {
		return nil, err
	}
	return training.OpenLedger(t, pop, p.Guarantee, privacy.Recipe{
		Population: counts.Users, Cohort: p.Cohort, NoiseMultiplier: p.NoiseMultiplier, ClipQuantile: p.Adaptive, Mechanism: p.Mechanism, NoiseBy: p.NoiseBy,
	})
}

// keepUpdates stores the shards of a recorded round's chunks with the checkpoint. A power cut may
// lose them, like the originals; a replay of the round restores them.
func (p *ServerParams) keepUpdates(ctx context.Context, t *tasks.Task) error {
	if !p.Record.Has(t.Step) {
		return nil
	}
	for j := range p.Chunks {
		if err := t.KeepRecomputable(ctx, tasks.PartInput(j), updates.ShardBlob(0), updates.ShardBlob(j)); err != nil {
			return err
		}
	}
	return nil
}

// keepNone stores empty shards for a recorded round that is not used.
func (p *ServerParams) keepNone(ctx context.Context, t *tasks.Task, n models.Network) error {
	if !p.Record.Has(t.Step) {
		return nil
	}
	for j := range p.Chunks {
		none, err := p.Record.NewRecorder(n, p.Seed, 0)
		if err != nil {
			return err
		}
		if err := t.PutRecomputable(ctx, updates.ShardBlob(j), none.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
