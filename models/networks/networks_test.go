package networks

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"coalmine/internal/seeds"
	"coalmine/models"
)

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func closing(tb testing.TB, c io.Closer) {
	tb.Helper()
	check(tb, c.Close())
}

func mustNew(tb testing.TB, c Config) *Classifier {
	tb.Helper()
	n, err := New(c)
	check(tb, err)
	return n
}

// graphs are those that are used, and small ones of every activation.
var graphs = []struct {
	config Config
	batch  int
}{
	{digits, digitsBatch},
	{Config{Inputs: 5, Classes: 2}, 1},
	{Config{Inputs: 7, Hidden: []int{6, 4}, Classes: 3, Activation: Tanh}, 5},
	{Config{Inputs: 3, Hidden: []int{9, 2, 5}, Classes: 4, Activation: Sigmoid}, 6},
	{Config{Inputs: 300, Hidden: []int{270}, Classes: 2, Activation: ReLU}, 3},
}

// examples draws inputs and labels.
func examples(rng *rand.Rand, c Config, n int) ([]float64, []int) {
	inputs, labels := make([]float64, n*c.Inputs), make([]int, n)
	for i := range inputs {
		inputs[i] = rng.NormFloat64()
	}
	for i := range labels {
		labels[i] = rng.IntN(c.Classes)
	}
	return inputs, labels
}

func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// Every graph at the size at which it is used: in float64 against central
// differences, and in float32 against float64. The batch is not full.
func TestGradientsEqualFiniteDifferences(t *testing.T) {
	t.Parallel()
	for seed, use := range graphs {
		t.Run(fmt.Sprintf("%+v", use.config), func(t *testing.T) {
			t.Parallel()
			rng := seeds.Stream(uint64(seed), "test")
			classifier := mustNew(t, use.config)
			inputs, labels := examples(rng, use.config, max(1, use.batch-1))
			params := make([]float64, classifier.Parameters())
			for i := range params {
				params[i] = rng.NormFloat64() * 0.2
			}
			wide, err := newTrainer[float64](use.config, use.batch)
			check(t, err)
			defer closing(t, wide)
			gradient, scratch := make([]float64, len(params)), make([]float64, len(params))
			_, err = wide.Gradient(params, inputs, labels, gradient)
			check(t, err)
			lossAt := func(i int, x float64) float64 {
				old := params[i]
				defer func() { params[i] = old }()
				params[i] = x
				loss, err := wide.Gradient(params, inputs, labels, scratch)
				check(t, err)
				return loss
			}
			const h = 1e-6
			for _, tensor := range classifier.Tensors() {
				for range 15 {
					i := tensor.Offset + rng.IntN(tensor.Size())
					want := (lossAt(i, params[i]+h) - lossAt(i, params[i]-h)) / (2 * h)
					if math.Abs(gradient[i]-want) > 1e-6*max(1, math.Abs(want)) {
						t.Errorf("%v element %d: gradient %v, central difference %v", tensor, i-tensor.Offset, gradient[i], want)
					}
				}
			}
			compareWithFloat32(t, classifier, use.batch, params, inputs, labels, gradient)
		})
	}
}

func compareWithFloat32(t *testing.T, c *Classifier, batch int, params, inputs []float64, labels []int, want []float64) {
	t.Helper()
	trainer, err := c.NewTrainer(batch)
	check(t, err)
	defer closing(t, trainer)
	gradient := make([]float32, len(params))
	_, err = trainer.Gradient(narrow(params), narrow(inputs), labels, gradient)
	check(t, err)
	largest := 0.0
	for _, v := range want {
		largest = max(largest, math.Abs(v))
	}
	for i, v := range want {
		if math.Abs(float64(gradient[i])-v) > 1e-4*largest {
			t.Fatalf("element %d is %v in float32, %v in float64", i, gradient[i], v)
		}
	}
}

func TestRunsDoNotDependOnEarlierOnes(t *testing.T) {
	t.Parallel()
	config := Config{Inputs: 7, Hidden: []int{6}, Classes: 3}
	c := mustNew(t, config)
	rng := seeds.Stream(1, "test")
	params := c.Init(rng)
	kept := slices.Clone(params)
	used, err := c.NewTrainer(5)
	check(t, err)
	defer closing(t, used)
	for round := range 4 {
		inputs, labels := examples(rng, config, 1+round)
		fresh, err := c.NewTrainer(5)
		check(t, err)
		got, want := make([]float32, len(params)), make([]float32, len(params))
		gotLoss, err := used.Gradient(params, narrow(inputs), labels, got)
		check(t, err)
		wantLoss, err := fresh.Gradient(params, narrow(inputs), labels, want)
		check(t, err)
		check(t, fresh.Close())
		if gotLoss != wantLoss || !slices.Equal(got, want) {
			t.Errorf("round %d: a used trainer and a fresh one differ", round)
		}
	}
	if !slices.Equal(params, kept) {
		t.Error("the parameters changed")
	}
}

func TestEmptyRowsOfABatchHaveNoWeight(t *testing.T) {
	t.Parallel()
	config := Config{Inputs: 4, Hidden: []int{5}, Classes: 3, Activation: Tanh}
	c := mustNew(t, config)
	rng := seeds.Stream(2, "test")
	params := c.Init(rng)
	inputs, labels := examples(rng, config, 3)
	var gradients [2][]float32
	for i, rows := range []int{3, 8} {
		trainer, err := c.NewTrainer(rows)
		check(t, err)
		gradients[i] = make([]float32, len(params))
		_, err = trainer.Gradient(params, narrow(inputs), labels, gradients[i])
		check(t, err)
		check(t, trainer.Close())
	}
	for i := range params {
		if math.Abs(float64(gradients[0][i]-gradients[1][i])) > 1e-6 {
			t.Fatalf("element %d: %v in a full batch, %v in one with room", i, gradients[0][i], gradients[1][i])
		}
	}
}

func TestTheEngineMultipliesLikeGonum(t *testing.T) {
	t.Parallel()
	rng := seeds.Stream(3, "test")
	for range 40 {
		m, n, k := 1+rng.IntN(30), 1+rng.IntN(30), 1+rng.IntN(30)
		trans := []blas.Transpose{blas.NoTrans, blas.Trans}
		ta, tb := trans[rng.IntN(2)], trans[rng.IntN(2)]
		lda, ldb := k, n
		if ta == blas.Trans {
			lda = m
		}
		if tb == blas.Trans {
			ldb = k
		}
		a, b, c := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
		for _, x := range [][]float32{a, b, c} {
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
		}
		want := slices.Clone(c)
		engine{}.Sgemm(ta, tb, m, n, k, 0.5, a, lda, b, ldb, 2, c, n)
		gonum.Implementation{}.Sgemm(ta, tb, m, n, k, 0.5, a, lda, b, ldb, 2, want, n)
		for i := range c {
			if math.Abs(float64(c[i]-want[i])) > 1e-4 {
				t.Fatalf("%dx%dx%d %c%c element %d: %v, want %v", m, n, k, ta, tb, i, c[i], want[i])
			}
		}
	}
}

func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Inputs: 0, Hidden: []int{0}, Classes: 1, Activation: "gelu"})
	for _, want := range []string{"inputs 0: want", "classes 1: want 2", "hidden width 0: want 1", `activation "gelu": expected one of relu`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	c := mustNew(t, Config{Inputs: 2, Classes: 3})
	trainer, err := c.NewTrainer(2)
	check(t, err)
	defer closing(t, trainer)
	params := make([]float32, c.Parameters())
	fine := []float32{1, 2}
	for want, call := range map[string]struct {
		params, inputs []float32
		labels         []int
		gradient       []float32
	}{
		"the parameter vector has 8": {params[1:], fine, []int{0}, params},
		"the gradient has 8":         {params, fine, []int{0}, params[1:]},
		"3 features: want":           {params, []float32{1, 2, 3}, []int{0}, params},
		"6 features: want":           {params, make([]float32, 6), []int{0, 0, 0}, params},
		"2 labels for 1 examples":    {params, fine, []int{0, 1}, params},
		"label 3: want 0 to 2":       {params, fine, []int{3}, params},
	} {
		if _, err := trainer.Gradient(call.params, call.inputs, call.labels, slices.Clone(call.gradient)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if _, err := c.NewTrainer(0); err == nil {
		t.Error("a trainer for no examples")
	}
	if _, err := c.NewScorer(0); err == nil {
		t.Error("a scorer for no examples")
	}
	params[0] = float32(math.NaN())
	_, err = trainer.Gradient(params, fine, []int{1}, make([]float32, len(params)))
	if _, ok := errors.AsType[*models.DivergedError](err); !ok {
		t.Errorf("error %v of NaN parameters, want a DivergedError", err)
	}
}
