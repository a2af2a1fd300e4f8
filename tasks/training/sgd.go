package training

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/population"
)

// Order is the order of examples in central training.
type Order string

const (
	// ByRecord reshuffles all examples every epoch.
	ByRecord Order = "records"
	// ByUser visits the users in a new order every epoch, and each user's examples in their stored
	// order (Thakkar et al. 2020, section 4.2, "Non-IIDness in Central Learning"). Batches may
	// cross users.
	ByUser Order = "users"
)

// SGDParams are the parameters of training/sgd.
type SGDParams struct {
	Seed  uint64 `json:"seed"`
	Local Local  `json:"local"`
	Order Order  `json:"order,omitempty"`
	// StepsPerTask is the number of SGD steps in one step of the chain. Chain step s takes the SGD
	// steps (s-1)*StepsPerTask+1 to s*StepsPerTask.
	StepsPerTask int `json:"steps_per_task"`
	// First and Steps, if Steps is set, make the task a tail: it takes Steps steps after the first
	// First steps, fewer than a whole chain step.
	First int `json:"first,omitempty"`
	Steps int `json:"steps,omitempty"`
	// EarlyStopping, if not nil, needs ValidationInput.
	EarlyStopping *EarlyStopping `json:"early_stopping,omitempty"`
	// StopAt, if not nil, needs ValidationInput too.
	StopAt *Target `json:"stop_at,omitempty"`
	// Program, if set, computes the gradients, by GradientsOf. The task then needs
	// external.VocabularyInput.
	Program *clientprograms.Program `json:"program,omitempty"`
}

// UsesProgram implements clientprograms.ProgramUser.
func (p SGDParams) UsesProgram() *clientprograms.Program { return p.Program }

// SGD takes a stretch of steps of central training. Step k uses the examples k*Batch to
// (k+1)*Batch-1 of an endless stream of epochs, so that a stretch can start anywhere without
// earlier ones.
var SGD = tasks.Kind{Name: "training/sgd", Version: 2, Class: tasks.Compute, Run: tasks.WithParams(runSGD)}

func runSGD(ctx context.Context, t *tasks.Task, p *SGDParams) error {
	stopping, err := openStopping(ctx, t, p)
	if err != nil {
		return err
	}
	if stopping.over() {
		return stopping.pass(ctx, t, p)
	}
	first, end := p.bounds(t.Step)
	target, err := p.StopAt.Open(ctx, t, first == 0)
	if err != nil {
		return err
	}
	if target.Over() {
		return target.pass(ctx, t, end)
	}
	s, err := openStretch(ctx, t, p, 0)
	if err != nil {
		return err
	}
	defer s.close()
	s.stopping, s.target = stopping, target
	records := recordStream{task: t, params: p, population: s.population}
	batch := make([][]int32, p.Local.Batch)
	err = s.run(t, s.end, func(step int) (models.Loss, error) {
		for i := range batch {
			if batch[i], err = records.at(ctx, int64(step)*int64(len(batch))+int64(i)); err != nil {
				return models.Loss{}, err
			}
		}
		s.records += int64(len(batch))
		if err := s.learner.drop(p.Seed, uint64(step)); err != nil {
			return models.Loss{}, err
		}
		loss, err := s.learner.step(batch, p.Local.Rate(step))
		return loss, s.failed(err, step)
	})
	if err != nil {
		return err
	}
	return s.write(ctx, t, s.row())
}

// bounds returns the first SGD step of the task, counted from 0, and the step after its last.
func (p *SGDParams) bounds(chainStep int) (first, end int) {
	if p.Steps > 0 {
		return p.First, p.First + p.Steps
	}
	return (chainStep - 1) * p.StepsPerTask, chainStep * p.StepsPerTask
}

// stretch is a run of consecutive steps of central training.
type stretch struct {
	population *population.Population
	model      *checkpoints.Model // the model before the stretch
	learner    *learner
	first      int // first step, counted from 0
	end        int // step after the last
	records    int64
	loss       models.Loss
	stopping   *stopping         // nil without early stopping
	target     *TargetTracker    // nil without a target
	program    *programGradients // nil without a program
}

// openStretch reads the state that the stretch begins with. clip bounds the gradients of single records of a
// private training. The caller must close the stretch.
func openStretch(ctx context.Context, t *tasks.Task, p *SGDParams, clip float64) (*stretch, error) {
	model, err := checkpoints.Read(ctx, t, tasks.PreviousInput)
	if err != nil {
		return nil, err
	}
	if trained, all := model.Network.Trained(), model.Network.Parameters(); trained < all && model.Network.Config().Adapters == (models.Adapters{}) {
		return nil, tasks.Permanent(fmt.Errorf("a model of kind %s: only %d of its %d parameters learn from data; expected federated training, whose server trains the others", model.Network.Config().Kind, trained, all))
	}
	s := &stretch{model: model}
	if s.learner, err = newLearner(model, p.Local); err != nil {
		return nil, err
	}
	copy(s.learner.params, model.Params)
	if s.first, s.end = p.bounds(t.Step); s.first > 0 {
		if err := checkpoints.ReadOptimizer(ctx, t, s.learner.rule); err != nil {
			return nil, err
		}
	}
	if s.population, err = population.Open(ctx, t, PopulationInput, ShardsInput); err != nil || p.Program == nil {
		return s, err
	}
	if s.program, err = newProgramGradients(ctx, t, p.Program, model, clip); err == nil {
		s.learner.trainer = s.program
	}
	return s, err
}

// close gives back the program, if any.
func (s *stretch) close() {
	if s.program != nil {
		s.program.client.GiveBack()
	}
}

func (s *stretch) run(t *tasks.Task, end int, take func(step int) (models.Loss, error)) error {
	for step := s.first; step < end; step++ {
		loss, err := take(step)
		if err != nil {
			return err
		}
		s.loss = s.loss.Add(loss)
		t.Progress(tasks.Progress{Done: int64(step - s.first + 1), Total: int64(end - s.first), Tokens: int64(s.loss.Tokens)})
	}
	return nil
}

// failed returns the error of a step, counted from 0. An error of a program already states whether a retry
// may resolve it.
func (s *stretch) failed(err error, step int) error {
	if _, ok := errors.AsType[*models.DivergedError](err); !ok && s.program != nil {
		return err
	}
	return diverged(err, "step %d", step+1)
}

// write stores the model after the stretch, and its metric row.
func (s *stretch) write(ctx context.Context, t *tasks.Task, row checkpoints.Row) error {
	l := s.learner
	if _, err := models.FiniteNorm("model", l.params); err != nil {
		return diverged(err, "step %d", s.end)
	}
	if err := s.model.Write(ctx, t, s.after().Params); err != nil {
		return err
	}
	if err := checkpoints.WriteOptimizer(ctx, t, l.rule); err != nil {
		return err
	}
	var err error
	if row.ValidationLoss, err = s.watch(ctx, t); err != nil {
		return err
	}
	return checkpoints.AppendRow(ctx, t, row)
}

// watch measures the model on the validation part if due. It returns the loss, 0 if not measured.
func (s *stretch) watch(ctx context.Context, t *tasks.Task) (float64, error) {
	if s.target != nil {
		return s.target.Watch(ctx, t, s.after(), s.first, s.end)
	}
	return s.stopping.watch(ctx, t, s)
}

func (s *stretch) after() *checkpoints.Model {
	after := &checkpoints.Model{Network: s.model.Network, Params: s.learner.params, Frozen: s.model.Frozen}
	if fixed := s.model.Params[len(after.Params):]; len(fixed) > 0 {
		after.Params = slices.Concat(after.Params, fixed)
	}
	return after
}

func (s *stretch) row() checkpoints.Row {
	change := append([]float32(nil), s.learner.params...)
	kernels.Axpy(-1, s.model.Params[:len(change)], change)
	return checkpoints.Row{
		Round:      int64(s.end),
		Examples:   s.records,
		Tokens:     int64(s.loss.Tokens),
		Loss:       s.loss.Mean(),
		UpdateNorm: math.Sqrt(kernels.SquaredNorm(change)),
	}
}

// recordStream is the endless sequence of examples of central training: epoch after epoch, each in
// its own order.
type recordStream struct {
	task       *tasks.Task
	params     *SGDParams
	population *population.Population
	epoch      int64
	order      []uint32 // order of the epoch; nil before the first
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

// orderKey returns the key of an epoch's order in the worker's cache.
func orderKey(population storage.Key, p *SGDParams, epoch int64) storage.Key {
	h := tasks.NewHasher("epoch order")
	h.Key(population)
	h.Uint(p.Seed)
	h.String(string(p.Order))
	h.Uint(uint64(epoch))
	return h.Sum()
}

func epochOrder(pop *population.Population, p *SGDParams, epoch int64) ([]uint32, error) {
	rng := seeds.Stream(p.Seed, seeds.Epoch, uint64(epoch))
	switch p.Order {
	case ByUser:
		return userOrder(pop, rng), nil
	case ByRecord:
		return recordOrder(pop, rng), nil
	}
	return nil, tasks.Permanent(fmt.Errorf("order %q of central training: expected %s or %s", p.Order, ByRecord, ByUser))
}

func userOrder(pop *population.Population, rng *rand.Rand) []uint32 {
	order := make([]uint32, 0, pop.Records())
	for _, user := range rng.Perm(pop.Users()) {
		first, end := pop.UserRecords(user)
		for i := first; i < end; i++ {
			order = append(order, uint32(i))
		}
	}
	return order
}

func recordOrder(pop *population.Population, rng *rand.Rand) []uint32 {
	order := lists.Make(pop.Records(), func(i int) uint32 { return uint32(i) })
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}
