package training

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
)

// Order is how central training goes through the data.
type Order string

const (
	// ByRecord reshuffles all examples every epoch.
	ByRecord Order = "records"
	// ByUser goes through the users in a new order every epoch, and through
	// each user's examples as they stand (Thakkar et al. 2020, section 4.2,
	// "Non-IIDness in Central Learning"). Batches may cross users.
	ByUser Order = "users"
)

// SGDParams are the parameters of training/sgd.
type SGDParams struct {
	Seed  uint64 `json:"seed"`
	Local Local  `json:"local"`
	Order Order  `json:"order"`
	// StepsPerTask is how many SGD steps one step of the chain takes. Chain
	// step s takes the SGD steps (s-1)*StepsPerTask+1 to s*StepsPerTask.
	StepsPerTask int `json:"steps_per_task"`
	// First and Steps, when Steps is set, make the task a tail: it takes Steps
	// steps after the first First, fewer than a whole chain step.
	First int `json:"first,omitempty"`
	Steps int `json:"steps,omitempty"`
}

// SGD takes a stretch of steps of central training. Step k sees the examples
// k*Batch to (k+1)*Batch-1 of an endless stream of epochs, so that a stretch
// starts anywhere without the ones before it.
var SGD = tasks.Kind{Name: "training/sgd", Version: 2, Class: tasks.Compute, Run: runSGD}

func runSGD(ctx context.Context, t *tasks.Task) error {
	var p SGDParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	model, err := checkpoints.Read(ctx, t, tasks.PreviousInput)
	if err != nil {
		return err
	}
	l, err := newLearner(model.Language, p.Local)
	if err != nil {
		return err
	}
	copy(l.params, model.Params)
	s := stretch{params: &p, learner: l}
	if s.first, s.end = p.bounds(t.Step); s.first > 0 {
		if err := checkpoints.ReadOptimizer(ctx, t, l.rule); err != nil {
			return err
		}
	}
	if err := s.run(ctx, t); err != nil {
		return err
	}
	if _, err := models.FiniteNorm("model", l.params); err != nil {
		return diverged(err, "step %d", s.end)
	}
	if err := checkpoints.Write(ctx, t, model.Language, l.params); err != nil {
		return err
	}
	if err := checkpoints.WriteOptimizer(ctx, t, l.rule); err != nil {
		return err
	}
	return checkpoints.AppendRow(ctx, t, s.row(model.Params))
}

// bounds are the first SGD step of the task, counted from 0, and the one after its last.
func (p *SGDParams) bounds(chainStep int) (first, end int) {
	if p.Steps > 0 {
		return p.First, p.First + p.Steps
	}
	return (chainStep - 1) * p.StepsPerTask, chainStep * p.StepsPerTask
}

// stretch is a run of consecutive SGD steps.
type stretch struct {
	params  *SGDParams
	learner *learner
	first   int // step, counted from 0
	end     int // the one after the last
	tokens  int64
	records int64
	lossSum float64
}

func (s *stretch) run(ctx context.Context, t *tasks.Task) error {
	population, err := datasets.OpenPopulation(ctx, t, PopulationInput, ShardsInput)
	if err != nil {
		return err
	}
	records := recordStream{task: t, params: s.params, population: population}
	batch := make([][]int32, s.params.Local.Batch)
	for step := s.first; step < s.end; step++ {
		for i := range batch {
			if batch[i], err = records.at(ctx, int64(step)*int64(len(batch))+int64(i)); err != nil {
				return err
			}
		}
		if err := s.learner.drop(s.params.Seed, uint64(step)); err != nil {
			return err
		}
		loss, err := s.learner.step(batch, s.params.Local.rate(step))
		if err != nil {
			return diverged(err, "step %d", step+1)
		}
		s.tokens += int64(loss.Tokens)
		s.records += int64(len(batch))
		s.lossSum += loss.Sum
		t.Progress(tasks.Progress{Done: int64(step - s.first + 1), Total: int64(s.end - s.first), Tokens: s.tokens})
	}
	return nil
}

// row describes the stretch; before is the model it started from.
func (s *stretch) row(before []float32) checkpoints.Row {
	change := append([]float32(nil), s.learner.params...)
	kernels.Axpy(-1, before, change)
	return checkpoints.Row{
		Round:      int64(s.end),
		Examples:   s.records,
		Tokens:     s.tokens,
		Loss:       s.lossSum / float64(s.tokens),
		UpdateNorm: math.Sqrt(kernels.SquaredNorm(change)),
	}
}

// recordStream is the endless sequence of examples that central training sees:
// epoch after epoch, each in its own order.
type recordStream struct {
	task       *tasks.Task
	params     *SGDParams
	population *datasets.Population
	epoch      int64
	order      []uint32 // of the epoch; nil before the first
}

// at returns the example at a position of the stream.
func (r *recordStream) at(ctx context.Context, position int64) ([]int32, error) {
	n := int64(r.population.Records())
	if epoch := position / n; r.order == nil || epoch != r.epoch {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.shuffle(epoch); err != nil {
			return nil, err
		}
	}
	return r.population.ReadRecord(ctx, int(r.order[position%n]))
}

// shuffle draws the order of an epoch, once for all tasks of the worker.
func (r *recordStream) shuffle(epoch int64) error {
	key, err := r.task.Input(PopulationInput)
	if err != nil {
		return err
	}
	order, err := tasks.Memoize(r.task, orderKey(key, r.params, epoch), "order", func() ([]uint32, int64, error) {
		order, err := epochOrder(r.population, r.params, epoch)
		return order, 4 * int64(len(order)), err
	})
	r.epoch, r.order = epoch, order
	return err
}

// orderKey names an epoch's order in the worker's memory.
func orderKey(population storage.Key, p *SGDParams, epoch int64) storage.Key {
	h := tasks.NewHasher("epoch order")
	h.Key(population)
	h.Uint(p.Seed)
	h.String(string(p.Order))
	h.Uint(uint64(epoch))
	return h.Sum()
}

func epochOrder(population *datasets.Population, p *SGDParams, epoch int64) ([]uint32, error) {
	rng := seeds.Stream(p.Seed, seeds.Epoch, uint64(epoch))
	switch p.Order {
	case ByUser:
		return userOrder(population, rng), nil
	case ByRecord:
		return recordOrder(population, rng), nil
	}
	return nil, tasks.Permanent(fmt.Errorf("order %q of central training: expected %s or %s", p.Order, ByRecord, ByUser))
}

func userOrder(population *datasets.Population, rng *rand.Rand) []uint32 {
	order := make([]uint32, 0, population.Records())
	for _, user := range rng.Perm(population.Users()) {
		first, end := population.UserRecords(user)
		for i := first; i < end; i++ {
			order = append(order, uint32(i))
		}
	}
	return order
}

func recordOrder(population *datasets.Population, rng *rand.Rand) []uint32 {
	order := make([]uint32, population.Records())
	for i := range order {
		order[i] = uint32(i)
	}
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}
