package training

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/taskstest"
)

// dpParams clip about half of the records' gradients.
func dpParams() DPSGDParams {
	return DPSGDParams{
		SGDParams: SGDParams{Seed: 2, StepsPerTask: 1, Local: Local{Optimizer: sgd, LearningRate: 0.5, Batch: 7}},
		Sampling:  privacy.Poisson, Clip: 0.45, NoiseMultiplier: 0.8,
		Guarantee: &Guarantee{Sampling: privacy.Poisson, Delta: 1e-5},
	}
}

// recordsOf are the records that a step, counted from 1, draws.
func (b *bench) recordsOf(p *DPSGDParams, number int) [][]int32 {
	b.t.Helper()
	population := b.users()
	scheme := must.Get(privacy.FindScheme(p.Sampling))(b.t)
	chosen := must.Get(scheme.Draw(privacy.Round{
		Number: number, Population: population.Records(), Cohort: p.Local.Batch,
		Stream: func(n int) (*rand.Rand, error) { return seeds.Stream(p.Seed, seeds.Cohort, uint64(n)), nil },
	}))(b.t)
	var records [][]int32
	for _, i := range chosen {
		record := must.Get(population.ReadRecord(b.t.Context(), i))(b.t)
		records = append(records, record)
	}
	return records
}

// privateMean is the definition, once more: each record's gradient alone, clipped;
// their sum over the expected size of a batch; and the noise of the step.
func (b *bench) privateMean(params []float32, p *DPSGDParams, number int) []float64 {
	b.t.Helper()
	m := b.model(b.origin).Network
	mean, gradient := make([]float64, len(params)), make([]float32, len(params))
	for _, record := range b.recordsOf(p, number) {
		must.Get(m.NewLearner(nil).Gradient(params, [][]int32{record}, gradient))(b.t)
		scale := math.Min(1, p.Clip/math.Sqrt(kernels.SquaredNorm(gradient)))
		for i, g := range gradient {
			mean[i] += float64(g) * scale / float64(p.Local.Batch)
		}
	}
	noise := seeds.Stream(p.Seed, seeds.Noise, uint64(number))
	for i := range mean {
		mean[i] += p.NoiseMultiplier * p.Clip / float64(p.Local.Batch) * noise.NormFloat64()
	}
	return mean
}

func TestAPrivateStepFollowsItsDefinition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, sampling := range []privacy.Sampling{privacy.Poisson, privacy.FixedSize, privacy.Shuffled} {
		p := dpParams()
		p.Sampling, p.Guarantee.Sampling, p.Local.WeightDecay = sampling, sampling, 0.01
		last := b.origin
		for number := 1; number <= 3; number++ {
			before := b.model(last).Params
			var want []float64
			for i, g := range b.privateMean(before, &p, number) {
				want = append(want, float64(before[i])*(1-0.5*0.01)-0.5*g)
			}
			last = b.mustStep(DPSGD, p, last, number, 0)
			closeTo(t, string(sampling), b.model(last).Params, want)
		}
	}
}

// The rule sees the private gradient, and nothing else of the data.
func TestAnyRuleStepsOnThePrivateGradient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, rule := range optimizers.Rules() {
		config := must.Get(optimizers.Defaults(rule.Kind))(t)
		p := dpParams()
		p.Local.Optimizer, p.Local.LearningRate = config, 0.01
		params := b.model(b.origin).Params
		var gradient []float32
		for _, g := range b.privateMean(params, &p, 1) {
			gradient = append(gradient, float32(g))
		}
		optimizer := must.Get(optimizers.New(config, len(params)))(t)
		optimizer.Step(params, gradient, 0.01)
		var want []float64
		for _, v := range params {
			want = append(want, float64(v))
		}
		closeTo(t, string(rule.Kind), b.model(b.mustStep(DPSGD, p, b.origin, 1, 0)).Params, want)
	}
}

func TestAnEmptyBatchStillGetsItsNoise(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := dpParams()
	p.Local.Batch = 1
	number := 1
	for len(b.recordsOf(&p, number)) > 0 {
		number++
	}
	p.First, p.Steps = 0, number-1
	before := b.origin
	if number > 1 {
		before = b.mustStep(DPSGD, p, b.origin, 0, 0)
	}
	p.First, p.Steps = number-1, 1
	after := b.mustStep(DPSGD, p, before, 0, 0)
	var want []float64
	noise := seeds.Stream(p.Seed, seeds.Noise, uint64(number))
	for _, v := range b.model(before).Params {
		want = append(want, float64(v)-0.5*0.8*0.45*noise.NormFloat64())
	}
	closeTo(t, "a step without records", b.model(after).Params, want)
	if row := b.row(after); row.Examples != 0 || row.Loss != 0 || row.EpsilonProved == 0 {
		t.Errorf("its row is %+v, want no examples, no loss and its cost", row)
	}
}

func (b *bench) row(n *taskstest.Node) checkpoints.Row {
	b.t.Helper()
	rows := must.Get(checkpoints.DecodeRows(n.Blob(tasks.RowsBlob)))(b.t)
	return rows[len(rows)-1]
}

func TestPrivateNoiseHasTheStatedDeviation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := dpParams()
	quiet := p
	quiet.NoiseMultiplier, quiet.Guarantee = 0, nil
	noisy, clean := b.model(b.mustStep(DPSGD, p, b.origin, 1, 0)).Params, b.model(b.mustStep(DPSGD, quiet, b.origin, 1, 0)).Params
	sum, n := 0.0, float64(len(noisy))
	for i, v := range noisy {
		d := (float64(v) - float64(clean[i])) / 0.5 // the learning rate
		sum += d * d
	}
	// The sample deviation of n normals has a relative error of 1/sqrt(2n); five of
	// those are passed with probability 6e-7. The seed is fixed.
	want := 0.8 * 0.45 / 7
	if got := math.Sqrt(sum / n); math.Abs(got/want-1) > 5/math.Sqrt(2*n) {
		t.Errorf("the noise on the mean deviates by %.5f, want %.5f", got, want)
	}
}

func TestDPSGDIsTheSameInOneStretchOrMany(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, sampling := range []privacy.Sampling{privacy.Poisson, privacy.Shuffled} {
		rule := must.Get(optimizers.Defaults(optimizers.RMSProp))(t)
		p := dpParams()
		p.Sampling, p.Guarantee.Sampling = sampling, sampling
		p.Local.Optimizer, p.Local.LearningRate, p.Local.Dropout = rule, 0.01, 0.2
		p.StepsPerTask = 30
		whole := b.mustStep(DPSGD, p, b.origin, 1, 0)
		p.StepsPerTask = 10
		last := b.mustStep(DPSGD, p, b.mustStep(DPSGD, p, b.origin, 1, 0), 2, 0)
		p.First, p.Steps = 20, 10
		tail := b.mustStep(DPSGD, p, last, 0, 0)
		if !slices.Equal(b.model(whole).Params, b.model(tail).Params) {
			t.Errorf("%s: 30 steps in one task and in two and a tail differ", sampling)
		}
		if w, r := b.row(whole), b.row(tail); w.EpsilonProved != r.EpsilonProved || r.Round != 30 {
			t.Errorf("%s: rows %+v and %+v, want the same cost after step 30", sampling, w, r)
		}
	}
}

func TestDPSGDRowReportsCostOfStepsAndClipping(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := dpParams()
	p.StepsPerTask = 5
	row := b.row(b.mustStep(DPSGD, p, b.mustStep(DPSGD, p, b.origin, 1, 0), 2, 0))
	want := must.Get(privacy.Account(privacy.Recipe{
		Population: b.users().Records(), Cohort: 7, Rounds: 10, NoiseMultiplier: 0.8, Delta: 1e-5, Sampling: privacy.Poisson,
	}))(t)
	if row.Epsilon != float64(want.Epsilon) || row.EpsilonProved != float64(want.EpsilonRenyi) {
		t.Errorf("10 steps cost %v and %v, the accountant says %v and %v", row.Epsilon, row.EpsilonProved, want.Epsilon, want.EpsilonRenyi)
	}
	if row.Clip != 0.45 || row.NoiseDeviation != p.noiseDeviation() || !(row.Clipped > 0 && row.Clipped < 1) ||
		!(row.Min > 0 && row.Min < row.ClientNorm && row.ClientNorm < row.Largest && row.Largest > 0.45) {
		t.Errorf("the row is %+v, want clip 0.45, its noise, and the norms of gradients of which some were clipped", row)
	}
}

func TestStepsBeyondTheBudgetAreNotTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := dpParams()
	p.StepsPerTask = 4
	four := b.mustStep(DPSGD, p, b.origin, 1, 0)
	p.StepsPerTask = 6
	p.Guarantee.Budget = &privacy.Budget{Epsilon: b.row(four).EpsilonProved, Delta: 1e-5}
	six := b.mustStep(DPSGD, p, b.origin, 1, 0)
	twelve := b.mustStep(DPSGD, p, six, 2, 0)
	for _, stopped := range []*taskstest.Node{six, twelve} {
		if !slices.Equal(b.model(stopped).Params, b.model(four).Params) {
			t.Error("steps beyond the budget changed the model")
		}
		if row := b.row(stopped); !row.Stopped || row.EpsilonProved != b.row(four).EpsilonProved {
			t.Errorf("the row is %+v, want the cost of four steps, and stopped", row)
		}
	}
}

func TestImpossibleDPSGDIsAPermanentError(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for want, change := range map[string]func(*DPSGDParams){
		"the batch of 100000 is above the":  func(p *DPSGDParams) { p.Local.Batch = 100_000 },
		"is for accounting":                 func(p *DPSGDParams) { p.Sampling = privacy.NoSampling },
		`sampling "often": expected one of`: func(p *DPSGDParams) { p.Sampling = "often" },
		"the loss is":                       func(p *DPSGDParams) { p.Local.LearningRate, p.StepsPerTask = 1e45, 9 },
	} {
		p := dpParams()
		change(&p)
		if _, err := b.step(DPSGD, p, b.origin, 1, 0); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want a permanent one with %q", err, want)
		}
	}
}

func TestGoldenBytesOfDPSGD(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := dpParams()
	p.StepsPerTask = 4
	taskstest.Golden(t, b.mustStep(DPSGD, p, b.origin, 1, 0))
}
