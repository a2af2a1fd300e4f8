package networks

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"gorgonia.org/gorgonia"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
)

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func normals[T Real](rng *rand.Rand, n int) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = T(rng.NormFloat64())
	}
	return x
}

// rowsOf gives the rows of a matrix.
func rowsOf[T Real](x []T, width int) func(i int) []T {
	return func(i int) []T { return x[i*width : (i+1)*width] }
}

func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// learner is a network of either type with examples, the same in both.
type learner[T Real] struct {
	*Graph[T]
	learn func() (float64, []T, error)
}

// network makes learners of one kind and size.
type network struct {
	name string
	wide func(rows int, rng *rand.Rand) learner[float64]
	used func(rows int, rng *rand.Rand) learner[float32]
}

func classifierOf[T Real](c Config, examples int) func(rows int, rng *rand.Rand) learner[T] {
	return func(rows int, rng *rand.Rand) learner[T] {
		n := must(newClassifier[T](c, rows))
		x, labels := normals[T](rng, examples*c.Inputs), make([][]int, len(c.Classes))
		for task, classes := range c.Classes {
			for range examples {
				labels[task] = append(labels[task], rng.IntN(classes+1)-1) // -1: not known
			}
		}
		return learner[T]{n.Graph, func() (float64, []T, error) { return n.learn(examples, rowsOf(x, c.Inputs), labels) }}
	}
}

func pairsOf[T Real](first, second *Tower, examples int) func(rows int, rng *rand.Rand) learner[T] {
	return func(rows int, rng *rand.Rand) learner[T] {
		var n *pairs[T]
		if first == second {
			n = must(newSiamese[T](first, rows))
		} else {
			n = must(newEncoders[T](first, second, rows))
		}
		x, y, same := normals[T](rng, examples*first.Inputs), normals[T](rng, examples*second.Inputs), make([]bool, examples)
		for i := range same {
			same[i] = rng.IntN(2) == 0
		}
		return learner[T]{n.Graph, func() (float64, []T, error) { return n.learn(same, rowsOf(x, first.Inputs), rowsOf(y, second.Inputs)) }}
	}
}

const examples = 31

// classifying and comparing are networks in both types of numbers.
func classifying(name string, c Config) network {
	return network{name, classifierOf[float64](c, examples), classifierOf[float32](c, examples)}
}

func comparing(name string, first, second *Tower) network {
	return network{name, pairsOf[float64](first, second, examples), pairsOf[float32](first, second, examples)}
}

// used are the networks of the audits at the sizes of the shipped examples, which record the 1,290
// values of a digit classifier's layer and vectors of 50 values, and small ones.
func used() []network {
	siamese, small, narrow := &Tower{1290, []int{128, 128}}, &Tower{7, []int{6, 5}}, &Tower{3, []int{5}}
	return []network{
		classifying("audit.deanonymization", Config{1290, []int{128}, []int{297}}),
		classifying("audit.attributes", Config{1290, []int{128}, []int{3, 297}}),
		comparing("audit.matching", siamese, siamese),
		comparing("audit.cross_modal", &Tower{1290, []int{128}}, &Tower{50, []int{128}}),
		classifying("small", Config{5, nil, []int{2}}),
		classifying("one class", Config{5, []int{4, 3}, []int{1, 2}}),
		comparing("small pairs", small, small),
		comparing("small encoders", &Tower{7, []int{5}}, narrow),
	}
}

// Every graph at the size at which it is used: in float64 against central differences, and in
// float32 against float64. The last chunk is not full.
func TestGradientsEqualFiniteDifferences(t *testing.T) {
	t.Parallel()
	for seed, n := range used() {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			rng := seeds.Stream(uint64(seed), "test")
			wide := n.wide(16, rand.New(rand.NewPCG(1, 2)))
			for i := range wide.Params {
				wide.Params[i] = rng.NormFloat64() * 0.2
			}
			_, gradient, err := wide.learn()
			check(t, err)
			gradient = slices.Clone(gradient)
			lossAt := func(i int, x float64) float64 {
				old := wide.Params[i]
				defer func() { wide.Params[i] = old }()
				wide.Params[i] = x
				loss, _, err := wide.learn()
				check(t, err)
				return loss
			}
			const h = 1e-6
			for _, tensor := range wide.Tensors() {
				for range 4 {
					i := tensor.Offset + rng.IntN(tensor.Size())
					want := (lossAt(i, wide.Params[i]+h) - lossAt(i, wide.Params[i]-h)) / (2 * h)
					if math.Abs(gradient[i]-want) > 1e-6*max(1, math.Abs(want)) {
						t.Errorf("%v element %d: gradient %v, central difference %v", tensor, i-tensor.Offset, gradient[i], want)
					}
				}
			}
			used := n.used(16, rand.New(rand.NewPCG(1, 2)))
			copy(used.Params, narrow(wide.Params))
			_, got, err := used.learn()
			check(t, err)
			largest := max(slices.Max(gradient), -slices.Min(gradient))
			for i := range gradient {
				if math.Abs(float64(got[i])-gradient[i]) > 1e-4*largest {
					t.Fatalf("element %d is %v in float32, %v in float64", i, got[i], gradient[i])
				}
			}
		})
	}
}

// Gorgonia adds up gradients from run to run if they are bound to parameters; here every run
// equals the first.
func TestRunsDoNotDependOnEarlierOnes(t *testing.T) {
	t.Parallel()
	for _, n := range used()[4:] {
		fresh, used := n.used(7, rand.New(rand.NewPCG(1, 2))), n.used(7, rand.New(rand.NewPCG(1, 2)))
		rng := seeds.Stream(1, "test")
		fresh.Init(rng)
		for range 3 {
			copy(used.Params, normals[float32](rng, len(used.Params)))
			_, _, err := used.learn()
			check(t, err)
		}
		copy(used.Params, fresh.Params)
		gotLoss, got, err := used.learn()
		check(t, err)
		wantLoss, want, err := fresh.learn()
		check(t, err)
		if gotLoss != wantLoss || !slices.Equal(got, want) {
			t.Errorf("%s: a used graph and a fresh one differ", n.name)
		}
		if !slices.Equal(used.Params, fresh.Params) {
			t.Errorf("%s: the parameters changed", n.name)
		}
	}
}

// A batch is the sum of its parts, however it is cut.
func TestABatchIsFoldedFromItsParts(t *testing.T) {
	t.Parallel()
	for _, n := range used()[4:] {
		var want []float64
		for _, rows := range []int{examples, examples + 5, 16, 1} {
			l := n.wide(rows, rand.New(rand.NewPCG(1, 2)))
			l.Init(seeds.Stream(1, "test"))
			_, got, err := l.learn()
			check(t, err)
			if want == nil {
				want = slices.Clone(got)
			}
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-14 {
					t.Fatalf("%s in parts of %d, element %d: %v, want %v", n.name, rows, i, got[i], want[i])
				}
			}
		}
	}
	for batch := 1; batch < 5*chunk; batch++ {
		if rows := rowsFor(batch); rows > chunk || (batch+rows-1)/rows != (batch+chunk-1)/chunk {
			t.Fatalf("a batch of %d is cut into parts of %d", batch, rows)
		}
	}
}

// Equal arguments give equal bytes with every set of kernels, and beside other graphs at work.
func TestEveryKernelSetGivesSameBytes(t *testing.T) { //nolint:paralleltest // it forces the kernels of the whole process
	for _, n := range used()[:4] {
		var first string
		for _, set := range kernels.Sets() {
			restore, err := kernels.ForceSet(set)
			check(t, err)
			all := make([]string, 3)
			var group sync.WaitGroup
			for i := range all {
				group.Go(func() {
					l := n.used(16, rand.New(rand.NewPCG(1, 2)))
					l.Init(seeds.Stream(1, "test"))
					loss, gradient, err := l.learn()
					all[i] = fmt.Sprint(loss, err, sha256.Sum256(fmt.Append(nil, gradient)))
				})
			}
			group.Wait()
			restore()
			for _, got := range all {
				if first == "" {
					first = got
				} else if got != first {
					t.Errorf("%s: the bytes of set %s differ: %s and %s", n.name, set, got, first)
				}
			}
		}
	}
}

func TestProductsMatchGonum(t *testing.T) {
	t.Parallel()
	rng := seeds.Stream(3, "test")
	for range 40 {
		m, n, k, ta, tb := 1+rng.IntN(30), 1+rng.IntN(30), 1+rng.IntN(30), rng.IntN(2) == 0, rng.IntN(2) == 0
		lda, ldb := k, n
		if ta {
			lda = m
		}
		if tb {
			ldb = k
		}
		a, b := normals[float64](rng, m*k), normals[float64](rng, k*n)
		got, want := make([]float32, m*n), make([]float64, m*n)
		gemm(ta, tb, m, n, k, narrow(a), lda, narrow(b), ldb, got)
		gemm(ta, tb, m, n, k, a, lda, b, ldb, want)
		for i := range want {
			if math.Abs(float64(got[i])-want[i]) > 1e-4 {
				t.Fatalf("%dx%dx%d %t %t element %d: %v, want %v", m, n, k, ta, tb, i, got[i], want[i])
			}
		}
	}
}

// If ReLU cuts neither vector of a pair, both change a shared bias by opposite amounts: its
// gradient is 0, not a rounding error.
func TestTheBiasesOfASiameseNetworkCancelExactly(t *testing.T) {
	t.Parallel()
	const width = 7
	tower := &Tower{width, []int{6, 5}}
	n, rng := must(NewPairs(tower, tower, 2*chunk)), rand.New(rand.NewPCG(7, 8))
	n.Graph().Init(rng)
	tensors := n.Graph().Tensors()[:4] // of the tower
	for _, i := range []int{1, 3} {
		for j := range tensors[i].Size() {
			tensors[i].View(n.Graph().Params)[j] = 3000 // so that every unit is at work
		}
	}
	same := make([]bool, 2*chunk-3)
	for i := range same {
		same[i] = i%3 == 0
	}
	x, y := normals[float32](rng, len(same)*width), normals[float32](rng, len(same)*width)
	_, gradient, err := n.Learn(same, rowsOf(x, width), rowsOf(y, width))
	check(t, err)
	for i, tensor := range tensors {
		some := slices.ContainsFunc(tensor.View(gradient), func(x float32) bool { return x != 0 })
		if bias := i%2 == 1; bias && some {
			t.Errorf("gradients of %v: %v, want 0", tensor, tensor.View(gradient))
		} else if !bias && !some {
			t.Errorf("%v has no gradient", tensor)
		}
	}
}

func TestTheLossOfPairsIsTheCrossEntropyOfTheirLogits(t *testing.T) {
	t.Parallel()
	tower := &Tower{7, []int{6, 5}}
	for _, second := range []*Tower{tower, {3, []int{5}}} {
		rng := rand.New(rand.NewPCG(5, 2))
		n := must(NewPairs(tower, second, 8))
		n.Graph().Init(rng)
		same := []bool{true, false, true}
		x, y := normals[float32](rng, 3*7), normals[float32](rng, 3*second.Inputs)
		got, _, err := n.Learn(same, rowsOf(x, 7), rowsOf(y, second.Inputs))
		check(t, err)
		u, v := must(n.First(3, rowsOf(x, 7))), must(n.Second(3, rowsOf(y, second.Inputs)))
		want := 0.0
		for i, one := range same {
			z := n.Logit(u.Row(i), v.Row(i))
			if !one {
				z = -z
			}
			want += math.Log1p(math.Exp(-z)) / 3
		}
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("loss %v, want %v", got, want)
		}
	}
}

// A task without labels does not change the gradients of the others, and both losses are the same.
func TestUnlabelledTaskChangesNoGradient(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 9))
	one, two := must(NewClassifier(Config{6, []int{8}, []int{3}}, 2)), must(NewClassifier(Config{6, []int{8}, []int{3, 2}}, 2))
	two.Graph().Init(rng)
	copy(one.Graph().Params, two.Graph().Params)
	x := rowsOf(normals[float32](rng, 2*6), 6)
	lossAlone, alone, err := one.Learn(2, x, [][]int{{0, 2}})
	check(t, err)
	labels := [][]int{{0, 2}, {-1, -1}}
	lossBoth, both, err := two.Learn(2, x, labels)
	check(t, err)
	if lossAlone != lossBoth || !slices.Equal(alone, both[:len(alone)]) || slices.ContainsFunc(both[len(alone):], func(v float32) bool { return v != 0 }) {
		t.Errorf("losses %v and %v, gradients %v and %v", lossAlone, lossBoth, alone, both)
	}
	if loss := must(two.Loss(2, x, labels)); math.Abs(loss-lossBoth) > 1e-6 {
		t.Errorf("loss %v without a gradient, %v with it", loss, lossBoth)
	}
}

func TestNetworksRejectZeroWidths(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{{0, []int{4}, []int{2}}, {3, []int{0}, []int{2}}, {3, nil, []int{-1}}, {3, nil, nil}} {
		if _, err := NewClassifier(c, 4); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	fine := &Tower{3, []int{2}}
	for _, other := range []*Tower{{0, []int{2}}, {3, []int{0}}, {3, nil}, {3, []int{1}}} {
		if _, err := NewPairs(fine, other, 4); err == nil {
			t.Errorf("%+v was taken", other)
		}
	}
	if _, err := NewPairs(fine, fine, 0); err == nil {
		t.Error("batches of nothing were taken")
	}
}

// Tasks of a worker make networks, and train them, at the same time: the race detector finds
// memory that they share.
func TestNetworksAreIndependent(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for range 8 {
		for _, n := range used()[4:] {
			group.Go(func() {
				l := n.used(4, rand.New(rand.NewPCG(1, 2)))
				if _, _, err := l.learn(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
}

// faulty are Gorgonia's operations that give wrong numbers without an error.
var faulty = []string{"sliceOp", "softmaxOp", "byIndicesOp"}

func TestGraphsAvoidFaultyGorgoniaOperations(t *testing.T) {
	t.Parallel()
	for _, n := range used() {
		l := n.used(4, rand.New(rand.NewPCG(1, 2)))
		for _, node := range l.expr.AllNodes() {
			name := fmt.Sprintf("%T", node.Op())
			if slices.ContainsFunc(faulty, func(f string) bool { return strings.Contains(name, f) }) {
				t.Errorf("%s: the graph has a %s", n.name, name)
			}
		}
	}
}

// alone makes a test of Gorgonia itself wait for the graphs of others.
func alone(t *testing.T) {
	t.Helper()
	building.Lock()
	t.Cleanup(building.Unlock)
}

func TestALossHasNoSecondGradient(t *testing.T) {
	t.Parallel()
	alone(t)
	g := NewGraph[float64]()
	x := g.Parameter("x", 2, 2)
	loss := must(gorgonia.Sum(product[float64](x, x)))
	check(t, g.CompileLoss(loss))
	if err := g.CompileLoss(loss); err == nil || !strings.Contains(err.Error(), "gradient of a gradient") {
		t.Errorf("error %v of a second gradient", err)
	}
	if _, err := gorgonia.Grad(must(gorgonia.Sum(multiplication[float64](true, false, x, x).of(x, x))), x); err == nil {
		t.Error("a product of a gradient has a gradient")
	}
}

func filled(g *gorgonia.ExprGraph, name string, values []float64, shape ...int) *gorgonia.Node {
	return gorgonia.NodeFromAny(g, view(values, shape...), gorgonia.WithName(name))
}

// derivative is that of a loss by x.
func derivative(t *testing.T, loss, x *gorgonia.Node) []float64 {
	t.Helper()
	gradients, err := gorgonia.Grad(loss, x)
	check(t, err)
	var value gorgonia.Value
	gorgonia.Read(gradients[0], &value)
	machine := gorgonia.NewTapeMachine(loss.Graph())
	check(t, machine.RunAll())
	return numbers[float64](value)
}

// The faults that the package comment names. If one fails, Gorgonia has mended a fault: then the
// comment and the test above have one less.
func TestGorgoniaHasTheFaults(t *testing.T) {
	t.Parallel()
	t.Run("slices", func(t *testing.T) {
		t.Parallel()
		alone(t)
		x := filled(gorgonia.NewGraph(), "x", make([]float64, 600), 600, 1)
		if must(gorgonia.Slice(x, gorgonia.S(3, 5))) != must(gorgonia.Slice(x, gorgonia.S(259, 261))) {
			t.Error("rows 3 and 259 are told apart")
		}
	})
	t.Run("softmax", func(t *testing.T) {
		t.Parallel()
		alone(t)
		x := filled(gorgonia.NewGraph(), "x", make([]float64, 6), 2, 3)
		if must(gorgonia.SoftMax(x)) != must(gorgonia.LogSoftMax(x)) {
			t.Error("SoftMax and LogSoftMax are told apart")
		}
	})
	t.Run("indices", func(t *testing.T) {
		t.Parallel()
		alone(t)
		g := gorgonia.NewGraph()
		x, weights := filled(g, "x", []float64{1, 2, 3}, 3), filled(g, "weights", []float64{5, 7}, 2)
		at := gorgonia.NodeFromAny(g, view([]int{2, 0}, 2), gorgonia.WithName("at"))
		loss := must(gorgonia.Sum(must(gorgonia.HadamardProd(must(gorgonia.ByIndices(x, at, 0)), weights))))
		if got := derivative(t, loss, x); slices.Equal(got, []float64{7, 0, 5}) {
			t.Error("the gradient of ByIndices is right")
		}
	})
	t.Run("second gradients", func(t *testing.T) {
		t.Parallel()
		alone(t)
		g := gorgonia.NewGraph()
		x := filled(g, "x", []float64{2, 3}, 2)
		cubes := must(gorgonia.Sum(must(gorgonia.Cube(x))))
		first, err := gorgonia.Grad(cubes, x)
		check(t, err)
		if got := derivative(t, must(gorgonia.Sum(first[0])), x); slices.Equal(got, []float64{12, 18}) {
			t.Error("the gradient of a gradient is right")
		}
	})
	t.Run("adding up", func(t *testing.T) {
		t.Parallel()
		alone(t)
		g := gorgonia.NewGraph()
		x := filled(g, "x", []float64{2, 3}, 2)
		loss := must(gorgonia.Sum(must(gorgonia.Square(x))))
		_, err := gorgonia.Grad(loss, x)
		check(t, err)
		machine := gorgonia.NewTapeMachine(g, gorgonia.BindDualValues(x))
		check(t, machine.RunAll())
		machine.Reset()
		check(t, machine.RunAll())
		if got := numbers[float64](must(x.Grad())); slices.Equal(got, []float64{4, 6}) {
			t.Error("a second run does not add to the gradient of the first")
		}
	})
}
