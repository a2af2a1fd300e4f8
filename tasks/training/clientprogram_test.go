package training

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
	"coalmine/tasks/taskstest"
)

// native runs a program that trains clients as this package does, with the steps of params.
type native struct {
	t      *testing.T
	model  *checkpoints.Model
	params ClientsParams
	// refuse is the error of every training; nil for none.
	refuse error
	// shapes are described in place of the model's own, if there are any.
	shapes          []models.Shape
	borrowed, given int
	words           []string
}

func (n *native) Borrow(_ context.Context, s clientprograms.Setting) (clientprograms.Client, error) {
	n.borrowed++
	n.words = s.Words
	return n, nil
}

func (n *native) GiveBack() { n.given++ }

func (n *native) Description() *clientprograms.Description {
	shapes := n.shapes
	if shapes == nil {
		for _, t := range n.model.Network.Tensors() {
			shapes = append(shapes, models.Shape{Name: t.Name, Shape: t.Shape})
		}
	}
	return &clientprograms.Description{Program: "native", Input: clientprograms.TokensInput, Parameters: shapes, Deterministic: true}
}

func (n *native) Initial(context.Context, uint64) ([]float32, error) {
	return slices.Clone(n.model.Params), nil
}

// user is the one whose training has the seed.
func (n *native) user(w *clientprograms.Work) int {
	for user := range 100 {
		if smallSeed(n.params.Seed, seeds.Client, uint64(w.Round), uint64(user)) == w.Seed {
			return user
		}
	}
	n.t.Errorf("round %d: no user has the seed %d", w.Round, w.Seed)
	return 0
}

func (n *native) Fit(ctx context.Context, w clientprograms.Work, params []float32) (*clientprograms.Fitted, error) {
	if n.refuse != nil {
		return nil, n.refuse
	}
	data, err := w.Model.Read(ctx)
	if err != nil {
		return nil, err
	}
	c := chunkSum{params: &n.params, start: &start{network: n.model.Network, trained: make([]float32, len(params))}}
	if err := checkpoints.CopyParameters(n.model.Network, c.start.trained, data); err != nil {
		return nil, err
	}
	if c.learner, err = newLearnerWith(n.model.Network, nil, n.params.Local); err != nil {
		return nil, err
	}
	c.learner.anchor = c.start.trained
	_, err = c.train(ctx, w.Examples, w.Round, n.user(&w))
	copy(params, c.learner.params)
	return &clientprograms.Fitted{Examples: int64(len(w.Examples)), Targets: c.metrics.Tokens, Loss: c.metrics.LossSum / float64(c.metrics.Tokens)}, err
}

func (*native) Evaluate(context.Context, clientprograms.Work) (*clientprograms.Evaluation, error) {
	return nil, errors.ErrUnsupported
}

func (*native) LogLikelihoods(context.Context, clientprograms.Model, []clientprograms.Pair) ([]clientprograms.Likelihood, error) {
	return nil, errors.ErrUnsupported
}

var program = clientprograms.Program{Command: "native", Config: []byte(`{"a":1}`)}

// programmed is a bench whose clients a program trains.
func programmed(t *testing.T) (*bench, *native, *taskstest.Node) {
	t.Helper()
	b := newBench(t)
	n := &native{t: t, model: b.model(b.origin), params: clientsParams()}
	b.Clients = n
	return b, n, b.Run(ClientInitial, ClientInitialParams{Seed: 4, Program: program}, taskstest.In(external.VocabularyInput, b.parts))
}

// byProgram are the parameters of clients that the program trains.
func byProgram(p ClientsParams) ClientsParams {
	p.Local, p.Epochs = Local{Optimizer: sgd, LearningRate: 1, Batch: 1}, 1
	p.Program = &program
	return p
}

// withVocabulary is a step of a chunk with the inputs that a program needs.
func (b *bench) withVocabulary(params ClientsParams, previous *taskstest.Node, step int) (*taskstest.Node, error) {
	spec, err := tasks.NewSpec(Clients, params,
		tasks.Input{Name: tasks.PreviousInput, Key: previous.Key},
		tasks.Input{Name: PopulationInput, Key: b.population.Key},
		tasks.Input{Name: ShardsInput, Key: b.parts.Key},
		tasks.Input{Name: external.VocabularyInput, Key: b.parts.Key})
	if err != nil {
		b.t.Fatal(err)
	}
	spec.Step = step
	return b.TrySpec(Clients, spec)
}

func TestAProgramDrawsTheInitialModel(t *testing.T) {
	t.Parallel()
	b, n, origin := programmed(t)
	m := b.model(origin)
	if m.Network.Config().Kind != models.External || !slices.Equal(m.Params, n.model.Params) || len(n.words) != vocabulary+datasets.FirstWord {
		t.Errorf("the first model is a %s of %d parameters, for %d words", m.Network.Config().Kind, len(m.Params), len(n.words))
	}
	var metrics ClientInitialMetrics
	origin.DecodeMetrics(&metrics)
	if want := (ClientInitialMetrics{"native", clientprograms.TokensInput, true, len(m.Params)}); metrics != want {
		t.Errorf("it is described by %+v, want %+v", metrics, want)
	}
	taskstest.Golden(t, origin)
}

// A program that trains as the built-in client does gives the same chunk to the last bit: clip,
// noise, record and weight do not depend on the trainer.
func TestAProgramsChunkIsThatOfItsUpdates(t *testing.T) {
	t.Parallel()
	b, n, origin := programmed(t)
	for name, change := range map[string]func(*ClientsParams){
		"by examples": func(*ClientsParams) {},
		"clipped":     func(p *ClientsParams) { p.Clip = 0.05 },
		"noised":      func(p *ClientsParams) { p.Clip, p.Noise = 0.05, 0.1 },
		"canaries": func(p *ClientsParams) {
			p.Clip, p.Cohort = 0.05, 12
			p.Canaries = &canaries.Clients{Count: 3, Over: 10}
		},
	} {
		p := clientsParams()
		change(&p)
		if p.Canaries != nil && b.users().Users() <= p.Canaries.Count {
			t.Fatal("all users are canaries")
		}
		want := b.mustStep(Clients, p, b.origin, 2, 0)
		got, err := b.withVocabulary(byProgram(p), origin, 2)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !slices.Equal(got.Blob(SumBlob), want.Blob(SumBlob)) {
			t.Errorf("%s: the program's sum is another", name)
		}
		var a, c ChunkMetrics
		want.DecodeMetrics(&a)
		got.DecodeMetrics(&c)
		if a.Tokens != c.Tokens || a.Clients != c.Clients || a.Weight != c.Weight || a.NormSum != c.NormSum || a.Clipped != c.Clipped {
			t.Errorf("%s: %+v, want %+v", name, c, a)
		}
	}
	if n.borrowed != n.given {
		t.Errorf("%d of %d programs are given back", n.given, n.borrowed)
	}
}

func TestAProgramThatCannotGoOnFailsItsChunk(t *testing.T) {
	t.Parallel()
	b, n, origin := programmed(t)
	p := byProgram(clientsParams())
	n.refuse = errors.New("no memory")
	if _, err := b.withVocabulary(p, origin, 1); !errors.Is(err, n.refuse) || tasks.IsPermanent(err) || !strings.Contains(err.Error(), "round 1: no memory") {
		t.Errorf("got %v", err)
	}
	n.refuse, n.shapes = nil, []models.Shape{{Name: "a", Shape: []int{3}}}
	if _, err := b.withVocabulary(p, origin, 1); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "describes other parameters") {
		t.Errorf("got %v", err)
	}
	p.Control = privacy.ClipPerBatch
	if _, err := b.withVocabulary(p, origin, 1); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "clips the steps of clients") {
		t.Errorf("got %v", err)
	}
	b.Clients = nil
	if _, err := b.withVocabulary(byProgram(clientsParams()), origin, 1); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "nothing here runs commands of experiments") {
		t.Errorf("got %v", err)
	}
	if n.borrowed != n.given {
		t.Errorf("%d of %d programs are given back", n.given, n.borrowed)
	}
}
