package towers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/kernels"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// checkGradient compares a gradient with central differences along each parameter. The loss
// is of float32 numbers, so that a difference is known to about 1e-7/step.
func checkGradient(t *testing.T, params, gradient []float32, loss func(params []float32) float64) {
	t.Helper()
	const step = 2e-3
	moved := slices.Clone(params)
	wrong := 0
	for i := range params {
		moved[i] = params[i] + step
		above := loss(moved)
		moved[i] = params[i] - step
		below := loss(moved)
		moved[i] = params[i]
		if want := (above - below) / (2 * step); math.Abs(float64(gradient[i])-want) > 2e-3*(1+math.Abs(want)) {
			wrong++
			t.Logf("parameter %d of %d: gradient %v, differences give %v", i, len(params), gradient[i], want)
		}
	}
	// Where ReLU or the distance has its corner within a step, differences are no gradient.
	if wrong > len(params)/100 {
		t.Errorf("%d of %d elements of the gradient are not what differences give", wrong, len(params))
	}
}

func TestGradientsOfPairsAreThoseOfDifferences(t *testing.T) {
	t.Parallel()
	siamese := must(NewTower(7, 6, 5))
	for name, n := range map[string]*Pairs{
		"shared": NewPairs(siamese, siamese),
		"two":    NewPairs(must(NewTower(7, 5)), must(NewTower(3, 5))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(3, 2))
			params := n.Init(rng)
			for i := range params {
				params[i] += 0.1 * float32(rng.NormFloat64()) // biases, too
			}
			same := []bool{true, false, false, true}
			x := normals(rng, len(same)*(n.first.Inputs()+n.second.Inputs()))
			trainer, gradient := n.NewTrainer(len(same)), make([]float32, len(params))
			trainer.Gradient(params, x, same, gradient)
			unused := make([]float32, len(params))
			checkGradient(t, params, gradient, func(params []float32) float64 { return trainer.Gradient(params, x, same, unused) })
		})
	}
}

// Where ReLU cuts neither vector of a pair, both pull a shared bias the opposite way by as much:
// its gradient is 0, not the rest of a rounded sum.
func TestTheBiasesOfASiameseNetworkCancelExactly(t *testing.T) {
	t.Parallel()
	const pairs, width = 33, 7
	tower := must(NewTower(width, 6, 5))
	n, rng := NewPairs(tower, tower), rand.New(rand.NewPCG(7, 8))
	params := n.Init(rng)
	for i := range 2 {
		in, out := tower.widths[i], tower.widths[i+1]
		_, bias, _ := tower.layer(i, params[tower.offset(i):])
		for j := range bias {
			bias[j] = float32(100 * in * out) // so that every unit is at work
		}
	}
	same := make([]bool, pairs)
	for i := range same {
		same[i] = i%3 == 0
	}
	gradient := make([]float32, len(params))
	n.NewTrainer(pairs).Gradient(params, normals(rng, 2*pairs*width), same, gradient)
	for i := range 2 {
		if _, bias, _ := tower.layer(i, gradient[tower.offset(i):]); slices.ContainsFunc(bias, func(x float32) bool { return x != 0 }) {
			t.Errorf("layer %d: gradients of the biases %v, want 0", i, bias)
		}
	}
	if !slices.ContainsFunc(gradient[:tower.Parameters()], func(x float32) bool { return x != 0 }) {
		t.Error("no weight has a gradient")
	}
}

func TestTheLossOfPairsIsTheCrossEntropyOfTheirLogits(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 2))
	n := NewPairs(must(NewTower(7, 5)), must(NewTower(3, 5)))
	params := n.Init(rng)
	same := []bool{true, false, true}
	x := normals(rng, 3*10)
	got := n.NewTrainer(8).Gradient(params, x, same, make([]float32, len(params)))
	u, v := n.Embed(params, x, 3, false), n.Embed(params, x[21:], 3, true)
	want := 0.0
	for i, one := range same {
		z := n.Logit(params, u[5*i:5*i+5], v[5*i:5*i+5])
		if !one {
			z = -z
		}
		want += math.Log1p(math.Exp(-z)) / 3
	}
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("loss %v, want %v", got, want)
	}
}

func TestGradientsOfSharedTowersAreThoseOfDifferences(t *testing.T) {
	t.Parallel()
	for _, classes := range [][]int{{4}, {4, 2}} {
		rng := rand.New(rand.NewPCG(3, 2))
		n := must(NewShared(must(NewTower(6, 8)), classes...))
		params := n.Init(rng)
		const rows = 5
		x := normals(rng, rows*6)
		labels := [][]int{{0, 1, 2, 3, -1}, {1, 0, -1, 1, 1}}[:len(classes)]
		trainer, gradient := n.NewTrainer(rows+3), make([]float32, len(params))
		trainer.Gradient(params, x, rows, labels, gradient)
		unused := make([]float32, len(params))
		checkGradient(t, params, gradient, func(params []float32) float64 {
			return trainer.Gradient(params, x, rows, labels, unused)
		})
	}
}

// A task that knows nothing changes nothing of what others learn.
func TestAnEmptyTaskTeachesNothing(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 9))
	trunk := must(NewTower(6, 8))
	one, two := must(NewShared(trunk, 3)), must(NewShared(trunk, 3, 2))
	params := two.Init(rng)
	x := normals(rng, 2*6)
	alone, both := make([]float32, one.Parameters()), make([]float32, two.Parameters())
	lossAlone := one.NewTrainer(2).Gradient(params[:len(alone)], x, 2, [][]int{{0, 2}}, alone)
	lossBoth := two.NewTrainer(2).Gradient(params, x, 2, [][]int{{0, 2}, {-1, -1}}, both)
	if lossAlone != lossBoth || !slices.Equal(alone, both[:len(alone)]) || slices.ContainsFunc(both[len(alone):], func(v float32) bool { return v != 0 }) {
		t.Errorf("losses %v and %v, gradients %v and %v", lossAlone, lossBoth, alone, both)
	}
}

func TestTowersWithoutWidthAreRefused(t *testing.T) {
	t.Parallel()
	for _, widths := range [][]int{{0, 4}, {3}, {3, 0}, {3, 4, -1}} {
		if _, err := NewTower(widths[0], widths[1:]...); err == nil {
			t.Errorf("widths %v were taken", widths)
		}
	}
	if _, err := NewShared(must(NewTower(2, 2))); err == nil {
		t.Error("a network without a task was taken")
	}
}

// All sets of kernels give the same bytes.
func TestBytesAreThoseOfEverySetOfKernels(t *testing.T) { //nolint:paralleltest // it forces the kernels of the whole process
	var first string
	for _, set := range kernels.Sets() {
		restore, err := kernels.ForceSet(set)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		tower := must(NewTower(70, 33, 20))
		pairs, shared := NewPairs(tower, tower), must(NewShared(tower, 5, 2))
		p, s := pairs.Init(rng), shared.Init(rng)
		gp, gs := make([]float32, len(p)), make([]float32, len(s))
		x := normals(rng, 6*70)
		loss := pairs.NewTrainer(3).Gradient(p, x, []bool{true, false, true}, gp)
		loss += shared.NewTrainer(6).Gradient(s, x, 6, [][]int{{0, 1, 2, 3, 4, 0}, {0, 1, 0, 1, -1, 1}}, gs)
		restore()
		if got := fmt.Sprint(loss, gp, gs); first == "" {
			first = got
		} else if got != first {
			t.Errorf("the bytes of set %s differ", set)
		}
	}
}
