package training

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
	"coalmine/tasks/taskstest"
)

// native runs a program that trains clients as this package does, with the steps of params.
type native struct {
	clientprograms.Client // has no methods: models are not measured
	t                     *testing.T
	model                 *checkpoints.Model
	params                ClientsParams
	// refuse is the error of every training; nil for none.
	refuse error
	// shapes are described in place of the model's own, if there are any.
	shapes          []models.Shape
	borrowed, given int
	words           []string
	// many is the answer about several users; requests has the number of users of each request, sums counts requests
	// for sums.
	many     *clientprograms.Together
	requests []int
	sums     int
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
	return &clientprograms.Description{Program: "native", Input: clientprograms.TokensInput, Parameters: shapes, Deterministic: true, Together: n.many}
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

func (n *native) FitMany(ctx context.Context, w clientprograms.ManyWork, each func(int, *clientprograms.Fitted, []float32) error) error {
	n.requests = append(n.requests, len(w.Users))
	for i, u := range w.Users {
		params := make([]float32, len(n.model.Params))
		fitted, err := n.Fit(ctx, clientprograms.Work{Model: w.Model, Examples: u.Examples, Round: w.Round, Seed: u.Seed}, params)
		if err == nil {
			err = each(i, fitted, params)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *native) Sum(ctx context.Context, w clientprograms.ManyWork, clip float64, weights []float64, sum []float32) (users []clientprograms.Summed, err error) {
	n.sums++
	total := make([]float64, len(sum))
	data, err := w.Model.Read(ctx)
	if err != nil {
		return nil, err
	}
	start := make([]float32, len(sum))
	if err := checkpoints.CopyParameters(n.model.Network, start, data); err != nil {
		return nil, err
	}
	err = n.FitMany(ctx, w, func(i int, f *clientprograms.Fitted, params []float32) error {
		kernels.Axpy(-1, start, params)
		norm, weight := math.Sqrt(kernels.SquaredNorm(params)), float64(f.Examples)
		if weights != nil {
			weight = weights[i]
		}
		scale := weight
		if clip > 0 {
			scale *= privacy.ClipScale(norm, clip)
		}
		for j, v := range params {
			total[j] += scale * float64(v)
		}
		users = append(users, clientprograms.Summed{Fitted: *f, Norm: norm})
		return nil
	})
	for i, v := range total {
		sum[i] = float32(v)
	}
	return users, err
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
	spec := must.Get(tasks.NewSpec(Clients, params,
		tasks.Input{Name: tasks.PreviousInput, Key: previous.Key},
		tasks.Input{Name: PopulationInput, Key: b.population.Key},
		tasks.Input{Name: ShardsInput, Key: b.parts.Key},
		tasks.Input{Name: external.VocabularyInput, Key: b.parts.Key}))(b.t)
	spec.Step = step
	return b.TrySpec(Clients, spec)
}

func TestAProgramDrawsTheInitialModel(t *testing.T) {
	t.Parallel()
	b, n, origin := programmed(t)
	m := b.model(origin)
	if m.Network.Config().Kind != models.External || !slices.Equal(m.Params, n.model.Params) || len(n.words) != vocabulary+text.FirstWord {
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
func TestProgramChunkMatchesBuiltinClient(t *testing.T) {
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

func TestFailingProgramFailsItsChunk(t *testing.T) {
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

// A client that diverges in a program gives the sentence of one that diverges natively.
func TestDivergenceInAProgramNamesClientRoundAndStep(t *testing.T) {
	t.Parallel()
	b, n, first := programmed(t)
	p := byProgram(clientsParams())
	d := &clientprograms.DivergedError{DivergedError: models.DivergedError{Name: "loss", Value: 3.4567e8}, Step: 2}
	n.refuse = tasks.Permanent(d)
	_, err := b.withVocabulary(p, first, 5)
	mustDiverge(t, err, `^training diverged: the loss is 3.5e\+08 at client \d+, round 5, step 2; lower the learning rate`)
	n.many = &clientprograms.Together{Users: 2, Sum: true}
	other := *p.Program
	other.Config = []byte(`{"together":true}`)
	p.Program, d.User, d.Name, d.Value = &other, 1, "update", math.Inf(1)
	_, err = b.withVocabulary(p, first, 5)
	mustDiverge(t, err, `^training diverged: the update is \+Inf at client \d+, round 5, step 2, its last; lower the learning rate`)
	var named int
	_, _ = fmt.Sscanf(err.Error(), "training diverged: the update is +Inf at client %d,", &named)
	if cohort := must.Get(Cohort(&p, 5, b.users().Users(), func(round int) (*rand.Rand, error) {
		return seeds.Stream(p.Seed, seeds.Cohort, uint64(round)), nil
	}))(t); named != chunk(cohort, 0, p.Chunks)[1] {
		t.Errorf("client %d diverged; expected the second of %v", named, cohort)
	}
}

// Clients that a program trains together have the same sum as clients trained one by one, up to the rounding of a program
// that sums itself. A request has at most the number of users that the program takes.
func TestJointTrainingMatchesSingleClients(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*ClientsParams){
		"clipped":  func(p *ClientsParams) { p.Clip = 0.05 },
		"weighted": func(p *ClientsParams) { p.Clip = 0 },
		"noised":   func(p *ClientsParams) { p.Clip, p.Noise = 0.05, 0.01 },
		"canaries": func(p *ClientsParams) { p.Clip, p.Canaries = 0.05, &canaries.Clients{Count: 3, Over: 10} },
	} {
		for _, sums := range []bool{false, true} {
			b, n, first := programmed(t)
			p := byProgram(clientsParams())
			p.Chunks = 1
			change(&p)
			alone := must.Get(b.withVocabulary(p, first, 1))(t)
			n.many = &clientprograms.Together{Users: 2, Sum: sums}
			other := *p.Program
			other.Config = []byte(`{"together":true}`)
			p.Program = &other
			together := must.Get(b.withVocabulary(p, first, 1))(t)
			summed := sums && name != "noised"
			if alike := sameSum(t, alone.Blob(SumBlob), together.Blob(SumBlob), summed); !alike || (n.sums > 0) != summed || slices.Max(n.requests) != 2 {
				t.Errorf("%s: the same sum %v; requests of %v users, %d sums", name, alike, n.requests, n.sums)
			}
		}
	}
}

// sameSum compares sums and norms, which differ by the rounding of a program's own sum.
func sameSum(t *testing.T, a, b []byte, rounded bool) bool {
	t.Helper()
	if !rounded {
		return slices.Equal(a, b)
	}
	left, err := safetensors.Unmarshal(a)
	right, other := safetensors.Unmarshal(b)
	must.Do(t, errors.Join(err, other))
	for _, name := range []string{SumTensor, NormsTensor} {
		x, _ := left.Tensor(name)
		y, _ := right.Tensor(name)
		difference := slices.Clone(x.Float32)
		kernels.Axpy(-1, y.Float32, difference)
		if d := math.Sqrt(kernels.SquaredNorm(difference)); len(x.Float32) == 0 || !(d <= 1e-6*math.Sqrt(kernels.SquaredNorm(x.Float32))) {
			return false
		}
	}
	return true
}
