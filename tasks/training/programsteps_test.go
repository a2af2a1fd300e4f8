package training

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/external"
	"coalmine/tasks/taskstest"
)

// stepper is a program whose users take one step of plain SGD, with the native gradient.
type stepper struct {
	*native
	batch int   // of its configuration: a smaller step takes its share of the learning rate
	steps []int // numbers of records of all users' steps
}

func (s *stepper) Borrow(ctx context.Context, setting clientprograms.Setting) (clientprograms.Client, error) {
	_, err := s.native.Borrow(ctx, setting)
	return s, err
}

func (s *stepper) Sum(ctx context.Context, w clientprograms.ManyWork, clip float64, weights []float64, sum []float32) (users []clientprograms.Summed, err error) {
	if len(w.Users) > s.many.Users {
		s.t.Errorf("%d users at once; expected at most %d", len(w.Users), s.many.Users)
	}
	model := must.Get(checkpoints.Decode(must.Get(w.Model.Read(ctx))(s.t)))(s.t)
	learner, total, update := model.Network.NewLearner(nil), make([]float64, len(sum)), make([]float32, len(sum))
	for i, u := range w.Users {
		if len(u.Batches) != 1 || !slices.IsSorted(u.Batches[0]) || len(u.Batches[0]) != len(u.Examples) {
			s.t.Errorf("user %d takes the steps %v over %d records; expected one over all", i, u.Batches, len(u.Examples))
		}
		s.steps = append(s.steps, len(u.Examples))
		loss := must.Get(learner.Gradient(model.Params, u.Examples, update))(s.t)
		kernels.Scale(float32(-w.LearningRate*float64(len(u.Examples))/float64(s.batch)), update)
		norm, scale := math.Sqrt(kernels.SquaredNorm(update)), weights[i]
		if clip > 0 {
			scale *= privacy.ClipScale(norm, clip)
		}
		for j, v := range update {
			total[j] += scale * float64(v)
		}
		users = append(users, clientprograms.Summed{Norm: norm, Fitted: clientprograms.Fitted{Examples: int64(len(u.Examples)), Targets: int64(loss.Tokens), Loss: loss.Mean()}})
	}
	for i, v := range total {
		sum[i] = float32(v)
	}
	return users, nil
}

// failing is a stepper whose sums fail.
type failing struct {
	*stepper
	err error
}

func (f *failing) Borrow(ctx context.Context, setting clientprograms.Setting) (clientprograms.Client, error) {
	_, err := f.stepper.Borrow(ctx, setting)
	return f, err
}

func (f *failing) Sum(context.Context, clientprograms.ManyWork, float64, []float64, []float32) ([]clientprograms.Summed, error) {
	return nil, f.err
}

// A step whose program dies is repeated; one that diverges is not, and has the sentence of a native step.
func TestCentralStepReportsProgramFailures(t *testing.T) {
	t.Parallel()
	plain := SGDParams{Seed: 2, StepsPerTask: 3, Order: ByRecord, Program: &program, Local: Local{Optimizer: sgd, LearningRate: 0.5, Batch: 7}}
	hidden := dpParams()
	hidden.Program = &program
	for name, x := range map[string]struct {
		kind   tasks.Kind
		params any
	}{"sgd": {SGD, plain}, "dp-sgd": {DPSGD, hidden}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := stepped(t, 1)
			f := &failing{s, errors.New("it was killed")}
			b.Clients = f
			step := func() error {
				spec := must.Get(tasks.NewSpec(x.kind, x.params,
					tasks.Input{Name: tasks.PreviousInput, Key: b.origin.Key},
					tasks.Input{Name: PopulationInput, Key: b.population.Key},
					tasks.Input{Name: ShardsInput, Key: b.parts.Key},
					tasks.Input{Name: external.VocabularyInput, Key: b.parts.Key}))(t)
				spec.Step = 1
				_, err := b.TrySpec(x.kind, spec)
				return err
			}
			if err := step(); !errors.Is(err, f.err) || tasks.IsPermanent(err) {
				t.Errorf("the program was killed: %v; expected an error that a retry may resolve", err)
			}
			f.err = tasks.Permanent(&clientprograms.DivergedError{DivergedError: models.DivergedError{Name: "update", Value: math.NaN()}, Step: 1})
			mustDiverge(t, step(), `^training diverged: the gradient is NaN at step 1; lower the learning rate`)
		})
	}
}

// stepped is a bench whose gradients a program computes.
func stepped(t *testing.T, batch int) (*bench, *stepper) {
	t.Helper()
	b := newBench(t)
	s := &stepper{native: &native{t: t, model: b.model(b.origin), many: &clientprograms.Together{Users: 3, Sum: true}}, batch: batch}
	b.Clients = s
	return b, s
}

func (b *bench) centralStep(kind tasks.Kind, params any, previous *taskstest.Node, step int) *taskstest.Node {
	b.t.Helper()
	spec := must.Get(tasks.NewSpec(kind, params,
		tasks.Input{Name: tasks.PreviousInput, Key: previous.Key},
		tasks.Input{Name: PopulationInput, Key: b.population.Key},
		tasks.Input{Name: ShardsInput, Key: b.parts.Key},
		tasks.Input{Name: external.VocabularyInput, Key: b.parts.Key}))(b.t)
	spec.Step = step
	return must.Get(b.TrySpec(kind, spec))(b.t)
}

// The task draws batches, adds noise and takes the steps of the optimizer, whoever computes the gradients: the models
// agree to the rounding of sums.
func TestCentralTrainingTakesTheGradientsOfAProgram(t *testing.T) {
	t.Parallel()
	plain := SGDParams{Seed: 2, StepsPerTask: 3, Order: ByRecord, Local: Local{Optimizer: sgd, LearningRate: 0.5, Batch: 7, GradientClip: 0.3, WeightDecay: 0.01}}
	hidden := dpParams()
	hidden.StepsPerTask = 3
	for name, x := range map[string]struct {
		kind         tasks.Kind
		here, by     any
		batch, users int
	}{
		"sgd":    {SGD, plain, func(p SGDParams) any { p.Program = &program; return p }(plain), 7, 3},
		"dp-sgd": {DPSGD, hidden, func(p DPSGDParams) any { p.Program = &program; return p }(hidden), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := stepped(t, x.batch)
			want, got := b.centralStep(x.kind, x.here, b.origin, 1), b.centralStep(x.kind, x.by, b.origin, 1)
			if d := relative(b.model(got).Params, b.model(want).Params, b.model(b.origin).Params); !(d <= 1e-5) {
				t.Errorf("the model differs by %.2g of the change; expected at most 1e-5", d)
			}
			if s.given != 1 || s.borrowed != 1 || x.users > 0 && !slices.Equal(s.steps, []int{7, 7, 7}) || x.users == 0 && slices.Max(s.steps) != 1 {
				t.Errorf("%d programs lent, %d back, steps over %v records", s.borrowed, s.given, s.steps)
			}
			rows := must.Get(checkpoints.DecodeRows(got.Blob(tasks.RowsBlob)))(t)
			here := must.Get(checkpoints.DecodeRows(want.Blob(tasks.RowsBlob)))(t)
			if r, h := rows[0], here[0]; r.Tokens != h.Tokens || r.Examples != h.Examples || math.Abs(r.Loss-h.Loss) > 1e-5 || math.Abs(r.Clipped-h.Clipped) > 1e-9 || math.Abs(r.ClientNorm-h.ClientNorm) > 1e-4 || r.EpsilonProved != h.EpsilonProved {
				t.Errorf("the metric row is %+v, natively %+v", r, h)
			}
		})
	}
}

// relative is the L2 distance of two vectors as a share of the change of the second from a start.
func relative(a, b, start []float32) float64 {
	var apart, change float64
	for i := range a {
		apart += math.Pow(float64(a[i])-float64(b[i]), 2)
		change += math.Pow(float64(b[i])-float64(start[i]), 2)
	}
	return math.Sqrt(apart / change)
}
