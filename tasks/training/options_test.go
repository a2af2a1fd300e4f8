package training

import (
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/taskstest"
)

// oneClient trains a single client and returns its update and its definition.
func oneClient(t *testing.T, b *bench, p ClientsParams, round int) (got []float32, want []float64) {
	t.Helper()
	p.Cohort, p.Clip = 1, 1e6 // a clip gives the client weight 1
	population := b.users()
	members := cohortOf(t, &p, round, population.Users())
	examples := must.Get(population.ReadUser(t.Context(), members[0]))(t)
	return sumOf(t, b.mustStep(Clients, p, b.origin, round, 0)), clientUpdate(t, b.model(b.origin), &p, examples, round, members[0])
}

func norm32(x []float32) float64 {
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = float64(v)
	}
	return norm(wide)
}

// FedProx minimizes F(w) + mu/2 |w - w_round|^2 (Li et al. 2020, equation 2).
func TestTheProximalTermFollowsItsDefinition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	p.Epochs = 8
	last := math.Inf(1)
	for _, mu := range []float64{0, 0.5, 2} {
		p.Local.Proximal = mu
		got, want := oneClient(t, b, p, 2)
		closeTo(t, "update with a proximal term", got, want)
		if n := norm32(got); n >= last {
			t.Errorf("mu %v: the update has norm %v, want less than %v", mu, n, last)
		} else {
			last = n
		}
	}
}

func TestWeightDecayFollowsItsDefinition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	p.Local.WeightDecay = 0.3
	got, want := oneClient(t, b, p, 2)
	closeTo(t, "update with weight decay", got, want)
}

func TestTheClientsScheduleRunsOverTheRounds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	p.Local.Schedule = &optimizers.Schedule{Kind: optimizers.StepWise, WarmUp: 2, Every: 1, Factor: 0.5}
	plain := clientsParams()
	for round, share := range map[int]float64{1: 0.5, 2: 1, 3: 1, 4: 0.5} {
		plain.Local.LearningRate = p.Local.LearningRate * share
		scheduled, _ := oneClient(t, b, p, round)
		constant, want := oneClient(t, b, plain, round)
		closeTo(t, "scheduled update", scheduled, want)
		if !slices.Equal(scheduled, constant) {
			t.Errorf("round %d: the update is not that of %v of the learning rate", round, share)
		}
	}
}

func TestDropoutRepeatsAndDoesNotDependOnTheChunk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	without := sumOf(t, b.mustStep(Clients, p, b.origin, 1, 0))
	p.Local.Dropout = 0.4
	whole := sumOf(t, b.mustStep(Clients, p, b.origin, 1, 0))
	if !slices.Equal(whole, sumOf(t, b.mustStep(Clients, p, b.origin, 1, 0))) {
		t.Error("a chunk that is trained again drops other elements")
	}
	if slices.Equal(whole, without) {
		t.Error("dropout changes nothing")
	}
	b.sixChunksAgainst(whole, p)
}

func TestSGDWithOptionsIsTheSameInOneStretchOrMany(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sameInThreeStretches(30, SGDParams{Seed: 2, Order: ByRecord, Local: Local{
		Optimizer: sgd, LearningRate: 0.2, Batch: 7, Dropout: 0.3, WeightDecay: 0.01,
		Schedule: &optimizers.Schedule{Kind: optimizers.Cosine, WarmUp: 5, Last: 29},
	}})
}

func TestLastStepOfCosineScheduleMovesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	schedule := optimizers.Schedule{Kind: optimizers.Cosine}.For(11)
	p := SGDParams{Seed: 2, Order: ByRecord, StepsPerTask: 9, Local: Local{Optimizer: sgd, LearningRate: 0.2, Batch: 7, Schedule: &schedule}}
	nine := b.mustStep(SGD, p, b.origin, 1, 0)
	next := func(first, steps int, previous *taskstest.Node) *taskstest.Node {
		tail := p
		tail.First, tail.Steps = first, steps
		return b.mustStep(SGD, tail, previous, 0, 0)
	}
	ten := next(9, 1, nine)
	eleven := next(10, 1, ten)
	if slices.Equal(b.model(nine).Params, b.model(ten).Params) {
		t.Error("the step before the last moves nothing")
	}
	if !slices.Equal(b.model(ten).Params, b.model(eleven).Params) {
		t.Error("the last step moves the model, whose rate should be 0")
	}
}

func TestImpossibleOptionsArePermanentErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for want, change := range map[string]func(*Local){
		"dropout rate 1: want":        func(l *Local) { l.Dropout = 1 },
		`schedule "linear": expected`: func(l *Local) { l.Schedule = &optimizers.Schedule{Kind: "linear"} },
	} {
		p := clientsParams()
		change(&p.Local)
		if _, err := b.step(Clients, p, b.origin, 1, 0); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want a permanent one with %q", err, want)
		}
	}
}

func TestDoubleSensitivityClipsToTwiceTheNorm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wide, broken := clientsParams(), clientsParams()
	wide.Clip, broken.Clip, broken.Control = 0.1, 0.05, privacy.DoubleSensitivity
	if want, got := sumOf(t, b.mustStep(Clients, wide, b.origin, 3, 0)), sumOf(t, b.mustStep(Clients, broken, b.origin, 3, 0)); !slices.Equal(got, want) {
		t.Error("a sum of updates clipped to twice 0.05 is not that of updates clipped to 0.1")
	}
}

// A user who takes one step is clipped as ever; one who takes several ends farther away, by at
// most the clip norm for each.
func TestClipPerBatchBoundsStepsAndNotUpdates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, epochs := range []int{1, 4} {
		p := clientsParams()
		p.Clip, p.Control, p.Cohort, p.Epochs, p.Local.Batch, p.Local.LearningRate = 0.01, privacy.ClipPerBatch, 1, epochs, 1000, 300
		sum := sumOf(t, b.mustStep(Clients, p, b.origin, 3, 0))
		wide := make([]float64, len(sum))
		for i, v := range sum {
			wide[i] = float64(v)
		}
		most := float64(epochs) * p.Clip
		if n := norm(wide); n > most*(1+1e-5) || epochs == 1 && math.Abs(n-p.Clip) > 1e-6 || epochs > 1 && n < 2*p.Clip {
			t.Errorf("%d steps of at most %v: the update has norm %v", epochs, p.Clip, n)
		}
	}
}

func TestCohortControlsChangeDraws(t *testing.T) {
	t.Parallel()
	same := clientsParams()
	same.Control = privacy.SameCohort
	honest := clientsParams()
	for round := 1; round <= 4; round++ {
		if got, want := cohortOf(t, &same, round, 50), cohortOf(t, &honest, 1, 50); !slices.Equal(got, want) {
			t.Errorf("round %d has %v, the first %v", round, got, want)
		}
	}
	dealt := clientsParams()
	dealt.Sampling, dealt.Control, dealt.Cohort = privacy.Poisson, privacy.PoissonAccounted, 10
	seen := map[int]int{}
	for round := 1; round <= 5; round++ {
		for _, user := range cohortOf(t, &dealt, round, 50) {
			seen[user]++
		}
	}
	for user := range 50 {
		if seen[user] != 1 {
			t.Errorf("user %d comes %d times in 5 cohorts of 10 of 50", user, seen[user])
		}
	}
}

func quantized(b *bench, bits int) *taskstest.Node {
	return b.Run(Quantize, QuantizeParams{Bits: bits}, taskstest.In(ModelInput, b.origin))
}

func TestAQuantizedModelIsACheckpointWithFewValues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	before, after := b.model(b.origin), b.model(quantized(b, 3))
	if after.Network.Config() != before.Network.Config() {
		t.Errorf("a model of %+v became one of %+v", before.Network.Config(), after.Network.Config())
	}
	want := slices.Clone(before.Params)
	must.Do(t, models.Quantize(before.Network, want, 3))
	if !slices.Equal(after.Params, want) || slices.Equal(before.Params, want) {
		t.Error("the checkpoint has other parameters than those of the model, rounded")
	}
	for _, tensor := range after.Network.Tensors() {
		values := slices.Clone(tensor.View(after.Params))
		slices.Sort(values)
		if n := len(slices.Compact(values)); n > 7 {
			t.Errorf("%v has %d values in 3 bits, want at most 7", tensor, n)
		}
	}
}
