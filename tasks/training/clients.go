package training

import (
	"context"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/updates"
)

// SumBlob is the output of training/clients: a safetensors file with the tensors
// SumTensor and NormsTensor.
const SumBlob = "sum"

const (
	// SumTensor is the weighted sum of the chunk's updates, laid out as the model's trained
	// parameters.
	SumTensor = "sum"
	// NormsTensor holds the L2 norms of the updates before clipping, one per client, in the order
	// of the users.
	NormsTensor = "norms"
)

// CanariesBlob is a JSON object of the contributions of the cohort's canaries, by canary: the
// length along the vector, 0 without a contribution, negative in the opposite direction.
const CanariesBlob = "canaries"

// ClientsParams are the parameters of training/clients. The task's Step is the
// round, its Part the chunk.
type ClientsParams struct {
	Seed uint64 `json:"seed"`
	// Cohort is the number of users in a round (the expected number under Poisson sampling), Chunks
	// the number of tasks of a round.
	Cohort   int              `json:"cohort"`
	Chunks   int              `json:"chunks"`
	Sampling privacy.Sampling `json:"sampling"`
	// Separation is the least number of rounds from one participation of a user to the next, with
	// privacy.Separated, and Participations, if set, the largest number of participations.
	Separation     int   `json:"separation,omitempty"`
	Participations int   `json:"participations,omitempty"`
	Local          Local `json:"local"`
	// Epochs is the number of passes over a client's examples, each in a new order.
	Epochs int `json:"epochs"`
	// Steps limits a client's steps in a round; 0 leaves only the limit by Epochs.
	Steps int `json:"steps,omitempty"`
	// Clip bounds the L2 norm of a client's update over all tensors together; 0 means no clip. With
	// a clip all clients have the same weight; without one, a client's weight is its number of
	// examples.
	Clip float64 `json:"clip,omitempty"`
	// AdaptiveClip makes Clip apply only to the first round; later rounds read theirs from the
	// checkpoint.
	AdaptiveClip bool `json:"adaptive_clip,omitempty"`
	// Noise is the standard deviation of the Gaussian noise that a client adds to each
	// element of its clipped update; 0 adds none.
	Noise float64 `json:"noise,omitempty"`
	// NoiseMultiplier z is the noise multiplier of the sum if clients add the noise of a round:
	// each member of the cohort, even without examples, adds privacy.NoiseShare to its clipped
	// update. 0 adds none.
	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"`
	// Compress is the client's compression of the noisy update; nil for none.
	Compress *Compression `json:"compress,omitempty"`
	// Record selects the parts of sent updates to record; nil records none.
	Record *updates.Recording `json:"record,omitempty"`
	// Secret, if set, replaces Seed for cohorts and for the noise and the rounding of clients.
	Secret *tasks.Secret `json:"secret,omitempty"`
	// StopAt is the target of aggregation/server: after it is reached, no client trains.
	StopAt *Target `json:"stop_at,omitempty"`
	// Canaries are the clients that an audit adds; nil without an audit.
	Canaries *canaries.Clients `json:"canaries,omitempty"`
	// Control is a deliberate fault of the training; empty for none.
	Control privacy.Control `json:"control,omitempty"`
	// Program, if set, trains the clients instead of Local, Epochs and Steps. The task then needs
	// external.VocabularyInput.
	Program *clientprograms.Program `json:"program,omitempty"`
}

// UsesProgram implements clientprograms.ProgramUser.
func (p ClientsParams) UsesProgram() *clientprograms.Program { return p.Program }

// ChunkMetrics are the metrics of a chunk, for aggregation/server.
type ChunkMetrics struct {
	Clients int64 `json:"clients"`
	// Weight is the sum of the clients' weights.
	Weight float64 `json:"weight"`
	// Examples and Tokens count the training data, once per local epoch.
	Examples int64 `json:"examples"`
	Tokens   int64 `json:"tokens"`
	// LossSum is the loss in nats over Tokens, each batch's before its step.
	LossSum float64 `json:"loss_sum"`
	// NormSum adds the L2 norms of the updates before clipping; Clipped counts
	// those above the clip.
	NormSum float64 `json:"norm_sum"`
	Clipped int64   `json:"clipped"`
}

// Add adds the counts of another chunk.
func (m *ChunkMetrics) Add(other ChunkMetrics) {
	m.Clients += other.Clients
	m.Weight += other.Weight
	m.Examples += other.Examples
	m.Tokens += other.Tokens
	m.LossSum += other.LossSum
	m.NormSum += other.NormSum
	m.Clipped += other.Clipped
}

// Clients trains the clients of one chunk of a round's cohort, each from the
// round's model, and sums their updates in the order of the users. An update
// depends on the model, the user and the round's stream, never on the chunk. In a recorded round
// the updates are an output too: updates.ShardBlob(0).
var Clients = tasks.Kind{Name: "training/clients", Version: 3, Class: tasks.Compute, Run: tasks.WithParams(runClients)}

func runClients(ctx context.Context, t *tasks.Task, p *ClientsParams) error {
	target, err := p.StopAt.Open(ctx, t, t.Step == 1)
	if err != nil {
		return err
	}
	pop, err := population.Open(ctx, t, PopulationInput, ShardsInput)
	if err != nil {
		return err
	}
	users, err := Cohort(p, t.Step, pop.Users(), func(round int) (*rand.Rand, error) {
		return t.Stream(p.Seed, p.Secret, seeds.Cohort, uint64(round))
	})
	if err != nil {
		return err
	}
	if p.AdaptiveClip {
		if p.Clip, err = checkpoints.ReadClip(ctx, t, p.Clip); err != nil {
			return err
		}
	}
	if target.Over() {
		users = nil
	}
	c, err := newChunkSum(ctx, t, p, pop)
	if err != nil {
		return err
	}
	if err := c.addAll(ctx, t, chunk(users, t.Part, p.Chunks)); err != nil {
		return err
	}
	return c.write(ctx, t)
}

// chunkSum adds up the updates of a chunk.
type chunkSum struct {
	params     *ClientsParams
	population *population.Population
	start      *start
	learner    *learner
	// fitter trains instead of the learner; nil before the first client and without a program.
	fitter *fitter
	// waiting holds the clients that it trains together next.
	waiting waitingClients
	sender  *sender
	// recorder is nil unless the round is recorded.
	recorder *updates.Recorder
	sum      updateSum
	norms    []float32
	sent     map[int]float64 // by canary
	order    [][]int32
	before   []float32 // parameters before a clipped step
	metrics  ChunkMetrics
}

func newChunkSum(ctx context.Context, t *tasks.Task, p *ClientsParams, pop *population.Population) (*chunkSum, error) {
	if err := errors.Join(p.Compress.validate(), p.validateNoise(), p.validateProgram()); err != nil {
		return nil, err
	}
	start, err := readStart(ctx, t)
	if err != nil {
		return nil, err
	}
	c := &chunkSum{params: p, population: pop, start: start, sender: newSender(t, p, start.network), norms: []float32{}}
	if p.Canaries != nil && p.Canaries.Coins != "" {
		c.sent = map[int]float64{}
	}
	if p.Record.Has(t.Step) {
		c.recorder, err = p.Record.NewRecorder(start.network, p.Seed, 1+p.Cohort/max(1, p.Chunks))
	}
	return c, err
}

func (c *chunkSum) addAll(ctx context.Context, t *tasks.Task, users []int) error {
	defer c.dismiss()
	c.sum.many = len(users) > 2
	for done := 0; done < len(users); {
		n, err := c.prepare(ctx, t, users[done:])
		if err != nil {
			return err
		}
		for _, user := range users[done : done+n] {
			if err := c.read(ctx, t.Step, user); err != nil {
				return err
			}
			done++
			t.Progress(c.progress(done, len(users)))
		}
		if err := c.trainWaiting(ctx, t.Step); err != nil {
			return err
		}
	}
	return nil
}

// progress reports the progress of the chunk. It hides the size of a Poisson cohort, which is as
// secret as the members.
func (c *chunkSum) progress(done, users int) tasks.Progress {
	if c.params.Secret != nil && c.params.Sampling == privacy.Poisson {
		return tasks.Progress{}
	}
	return tasks.Progress{Done: int64(done), Total: int64(users), Tokens: c.metrics.Tokens}
}

// prepare makes a learner for the next users and returns their number. It drops the
// previous learner first.
func (c *chunkSum) prepare(ctx context.Context, t *tasks.Task, users []int) (n int, err error) {
	c.sum.release()
	c.learner = nil
	if n, err = c.start.prepare(ctx, t, c.params, c.population, users); err != nil {
		return 0, err
	}
	c.learner, err = newLearnerWith(c.start.network, c.start.fixed, c.params.Local)
	if err == nil && c.params.Program != nil && c.fitter == nil {
		c.fitter, err = newFitter(ctx, t, c.params, c.start.network)
	}
	return n, err
}

// dismiss gives back the program, if any.
func (c *chunkSum) dismiss() {
	if c.fitter != nil {
		c.fitter.client.GiveBack()
		c.fitter = nil
	}
}

// read adds the update of a user. A user without examples was removed from the data, and counts as
// absent, but still sends a share of the noise. A canary client has no examples; its update is
// synthetic.
func (c *chunkSum) read(ctx context.Context, round, user int) error {
	if canary, ok := c.params.Canaries.Canary(user, c.population.Users()); ok {
		return c.addCanary(ctx, canary, round, user)
	}
	examples, err := c.population.ReadUser(ctx, user)
	if err != nil {
		return err
	}
	if len(examples) == 0 {
		return c.absent(ctx, round, user)
	}
	if c.fitter.together() != nil {
		return c.wait(ctx, examples, round, user)
	}
	return c.add(ctx, examples, round, user)
}

// absent adds the update of a member of the cohort without examples.
func (c *chunkSum) absent(ctx context.Context, round, user int) error {
	if c.params.NoiseMultiplier == 0 {
		return nil
	}
	if err := c.trainWaiting(ctx, round); err != nil {
		return err
	}
	c.sum.release()
	nothing := c.learner.params
	clear(nothing)
	return c.leave(nothing, 1, 1, round, user)
}

// add trains one client and adds its weighted update to the sum.
func (c *chunkSum) add(ctx context.Context, examples [][]int32, round, user int) error {
	c.sum.release()
	weight, steps, err := c.learn(ctx, examples, round, user)
	if err != nil {
		return err
	}
	return c.addLearned(weight, steps, round, user)
}

// updateName is the name of a client's update in a *models.DivergedError.
const updateName = "update"

// addLearned adds the difference of the learner's parameters from the round's model.
func (c *chunkSum) addLearned(weight float64, steps, round, user int) error {
	update := c.learner.params
	kernels.Axpy(-1, c.learner.anchor, update)
	norm, err := models.FiniteNorm(updateName, update)
	if err != nil {
		return diverged(err, "client %d, round %d, step %d, its last", user, round, steps)
	}
	return c.contribute(update, norm, weight, round, user)
}

// learn trains the learner's parameters on the client, and returns the client's weight without a
// clip.
func (c *chunkSum) learn(ctx context.Context, examples [][]int32, round, user int) (weight float64, steps int, err error) {
	c.learner.anchor = c.start.trained
	if c.fitter != nil {
		weight, err = c.fitter.fit(ctx, c.learner.params, examples, round, user, &c.metrics)
		return weight, 0, err
	}
	steps, err = c.train(ctx, examples, round, user)
	return float64(len(examples)), steps, err
}

// addCanary adds the update of a canary client. Without a clip its weight is one example.
func (c *chunkSum) addCanary(ctx context.Context, canary, round, user int) error {
	if err := c.trainWaiting(ctx, round); err != nil {
		return err
	}
	c.sum.release()
	length, err := c.params.Canaries.Length(c.params.Clip)
	if err != nil {
		return err
	}
	update := c.learner.params
	if !c.params.Canaries.Update(c.params.Seed, update, canary, length) {
		c.sent[canary] = 0
		return c.absent(ctx, round, user)
	}
	norm := math.Sqrt(kernels.SquaredNorm(update))
	if c.sent != nil {
		c.sent[canary] = norm * c.params.Control.ClipScale(norm, c.params.Clip)
		if !canaries.Coin(c.params.Seed, canary) {
			c.sent[canary] *= -1
		}
	}
	return c.contribute(update, norm, 1, round, user)
}

// contribute clips an update of a norm, and adds it to the sum by its weight. With a clip all
// weights are equal.
func (c *chunkSum) contribute(update []float32, norm, weight float64, round, user int) error {
	scale := 1.0
	if c.params.Clip > 0 {
		weight, scale = 1, c.params.Control.ClipScale(norm, c.params.Clip)
	}
	if err := c.leave(update, weight, scale, round, user); err != nil {
		return err
	}
	c.count(norm, weight, scale)
	return nil
}

// count counts a client whose update was scaled by its norm.
func (c *chunkSum) count(norm, weight, scale float64) {
	c.metrics.Clients++
	c.metrics.Weight += weight
	c.metrics.NormSum += norm
	c.norms = append(c.norms, float32(norm))
	if scale < 1 {
		c.metrics.Clipped++
	}
}

// leave scales an update to the clip, converts it to the sent update, adds it to the sum and
// records it.
func (c *chunkSum) leave(update []float32, weight, scale float64, round, user int) error {
	if c.sender.changes() {
		scaleTo(update, scale)
		if err := c.sender.send(update, round, user); err != nil {
			return err
		}
		scale = 1
	}
	c.sum.add(update, weight*scale)
	if c.recorder == nil {
		return nil
	}
	c.sum.release() // update may change after this
	scaleTo(update, scale)
	c.recorder.Add(round, user, update)
	return nil
}

// train trains the learner's parameters on the client, and returns the number of steps.
func (c *chunkSum) train(ctx context.Context, examples [][]int32, round, user int) (steps int, err error) {
	copy(c.learner.params, c.learner.anchor)
	if err := c.learner.reset(); err != nil {
		return 0, err
	}
	if err := c.learner.drop(c.params.Seed, uint64(round), uint64(user)); err != nil {
		return 0, err
	}
	c.draw(round, user)
	rate := c.params.Local.Rate(round - 1)
	rng := c.orders(round, user)
	for range c.params.Epochs {
		for batch := range batches(examples, &c.order, c.params.Local.Batch, rng) {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if c.params.Steps > 0 && steps == c.params.Steps {
				return steps, nil
			}
			steps++
			loss, err := c.step(batch, rate)
			if err != nil {
				return 0, diverged(err, "client %d, round %d, step %d", user, round, steps)
			}
			c.metrics.Examples += int64(len(batch))
			c.metrics.Tokens += int64(loss.Tokens)
			c.metrics.LossSum += loss.Sum
		}
	}
	return steps, nil
}

// orders draws the orders of a client's examples.
func (c *chunkSum) orders(round, user int) *rand.Rand {
	return seeds.Stream(c.params.Seed, seeds.Client, uint64(round), uint64(user))
}

// step takes a local step, clipped with privacy.ClipPerBatch.
func (c *chunkSum) step(batch [][]int32, rate float64) (models.Loss, error) {
	if c.params.Control != privacy.ClipPerBatch {
		return c.learner.step(batch, rate)
	}
	c.before = append(c.before[:0], c.learner.params...)
	loss, err := c.learner.step(batch, rate)
	if err != nil {
		return loss, err
	}
	kernels.Axpy(-1, c.before, c.learner.params)
	norm, err := models.FiniteNorm("local step", c.learner.params)
	scaleTo(c.learner.params, privacy.ClipScale(norm, c.params.Clip))
	kernels.Axpy(1, c.before, c.learner.params)
	return loss, err
}

// draw makes the learner use the user's precomputed vectors, or draw its own.
func (c *chunkSum) draw(round, user int) {
	if c.start.precomputed == nil {
		c.learner.draw(c.params.Seed, uint64(round), uint64(user))
		return
	}
	c.learner.trainer.(models.Precomputing).UsePrecomputed(c.start.precomputed[user])
}

// batches yields items in a new order, size at a time, in reused memory.
func batches[E any](items []E, memory *[]E, size int, rng *rand.Rand) iter.Seq[[]E] {
	order := append((*memory)[:0], items...)
	*memory = order
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return slices.Chunk(order, size)
}

// EncodeSum makes a SumBlob from a sum, an unnamed tensor, and the norms of the updates.
func EncodeSum(sum safetensors.Tensor, norms []float32) ([]byte, error) {
	sum.Name = SumTensor
	return safetensors.Marshal([]safetensors.Tensor{sum, {Name: NormsTensor, Shape: []int{len(norms)}, Float32: norms}}, nil)
}

// write releases the learner before it makes the output.
func (c *chunkSum) write(ctx context.Context, t *tasks.Task) error {
	length := len(c.start.trained)
	c.start, c.learner = nil, nil
	data, err := EncodeSum(c.sum.tensor(length), c.norms)
	if err != nil {
		return err
	}
	if err := t.PutRecomputable(ctx, SumBlob, data); err != nil {
		return err
	}
	if c.sent != nil {
		if err := t.PutJSON(ctx, CanariesBlob, c.sent); err != nil {
			return err
		}
	}
	if c.recorder != nil {
		if err := t.PutRecomputable(ctx, updates.ShardBlob(0), c.recorder.Bytes()); err != nil {
			return err
		}
	}
	return t.SetMetrics(c.metrics)
}
