package vision

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models"
)

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func testRand(i uint64) *rand.Rand { return seeds.Stream(i, "test") }

// drawExamples draws labelled images of noise.
func drawExamples(rng *rand.Rand, shape models.ImageShape, n int) [][]int32 {
	examples := make([][]int32, n)
	for i := range examples {
		e := []int32{1, firstWord + int32(rng.IntN(shape.Classes))}
		for range shape.Values() {
			e = append(e, firstWord+int32(rng.IntN(levels)))
		}
		examples[i] = e
	}
	return examples
}

// drawParams are initial parameters of which none is zero.
func drawParams(rng *rand.Rand, n models.Network) []float32 {
	params := n.Init(rng)
	for i := range params {
		params[i] += float32(0.05 * rng.NormFloat64())
	}
	return params
}

func widened(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// compareGradient compares every tensor of a gradient, which is in float32, with central
// differences of a loss along two random directions of it. params are in float64.
func compareGradient(t *testing.T, list []models.Tensor, gradient []float32, params []float64, loss func() float64) {
	t.Helper()
	rng := testRand(99)
	for _, tensor := range list {
		slopes := tensor.View(gradient)
		if moving(tensor.Name) {
			if slices.ContainsFunc(slopes, func(v float32) bool { return v != 0 }) {
				t.Errorf("%v has a gradient %v: want 0 of a statistic", tensor, slopes)
			}
			continue
		}
		for range 2 {
			direction, got := make([]float64, tensor.Size()), 0.0
			for i, slope := range slopes {
				direction[i] = rng.NormFloat64()
				got += direction[i] * float64(slope)
			}
			want := centralDifference(params[tensor.Offset:][:tensor.Size()], direction, loss)
			if math.Abs(got-want) > 1e-4*(math.Abs(want)+norm2(slopes))+1e-7 {
				t.Errorf("%v: slope %v along a direction, central difference %v", tensor, got, want)
			}
		}
	}
}

// centralDifference is the slope of a loss when x moves along a direction.
func centralDifference(x, direction []float64, loss func() float64) float64 {
	const h = 1e-6
	old := slices.Clone(x)
	defer copy(x, old)
	at := func(h float64) float64 {
		for i := range x {
			x[i] = old[i] + h*direction[i]
		}
		return loss()
	}
	return (at(h) - at(-h)) / (2 * h)
}

func norm2(x []float32) float64 { return math.Sqrt(kernels.SquaredNorm(x)) }

// near compares numbers that were computed in float32 with others.
func near(t *testing.T, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Abs(float64(got[i])-want[i]) > tolerance*max(1, math.Abs(want[i])) {
			t.Fatalf("%s %d: %v, want %v", what, i, got[i], want[i])
		}
	}
}

func TestAllSetsOfKernelsGiveEqualBytes(t *testing.T) { // not parallel: it changes the kernels
	g := ganOf(t, ganImages, models.Adversarial{Latent: 5}, smallGAN)
	c := smallClassifier(t)
	params, weights := g.Init(testRand(1)), c.Init(testRand(2))
	fakes, images := drawExamples(testRand(3), ganImages, 3), drawExamples(testRand(4), smallImages, 3)
	var want []float32
	for _, set := range kernels.Sets() {
		restore, err := kernels.ForceSet(set)
		check(t, err)
		got := make([]float32, len(params)+len(weights))
		learner, generator := learnerOf(g, params, 5), g.NewGenerator(params).(*Generator)
		_, err = learner.Gradient(params[:g.Trained()], fakes, got[:g.Trained()])
		check(t, err)
		_, err = generator.Gradient(testRand(6), 3, got[g.Trained():len(params)])
		check(t, err)
		_, err = c.NewLearner(nil).Gradient(weights, images, got[len(params):])
		check(t, err)
		learner.Track(got[:g.Trained()])
		generator.Track(got[:len(params)])
		restore()
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("kernels %s give other bytes than %s", set, kernels.Sets()[0])
		}
	}
}

const benchBatch = 32

// BenchmarkClassifier is a step of the paper's classifier.
func BenchmarkClassifier(b *testing.B) {
	c := classifierOf(b, digits, paperClassifier)
	rng := testRand(1)
	params, examples := c.Init(rng), drawExamples(rng, digits, benchBatch)
	gradient, learner := make([]float32, len(params)), c.NewLearner(nil)
	step := func() {
		_, err := learner.Gradient(params, examples, gradient)
		check(b, err)
	}
	step()
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
	b.ReportMetric(benchBatch*c.TrainingFLOPs()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
}

// BenchmarkGAN is a step of each network of the paper's GAN.
func BenchmarkGAN(b *testing.B) {
	g := ganOf(b, digits, models.Adversarial{}, paperGAN)
	params, examples := g.Init(testRand(1)), drawExamples(testRand(2), digits, benchBatch)
	gradient, rng := make([]float32, len(params)), testRand(3)
	learner, generator := learnerOf(g, params, 4), g.NewGenerator(params).(*Generator)
	run := func(name string, flops float64, step func() error) {
		b.Run(name, func(b *testing.B) {
			check(b, step())
			b.ReportAllocs()
			for b.Loop() {
				check(b, step())
			}
			b.ReportMetric(benchBatch*flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
		})
	}
	run("discriminator", g.TrainingFLOPs(), func() error {
		_, err := learner.Gradient(params[:g.Trained()], examples, gradient[:g.Trained()])
		return err
	})
	run("generator", g.GeneratorFLOPs(), func() error {
		_, err := generator.Gradient(rng, benchBatch, gradient[g.Trained():])
		return err
	})
}
