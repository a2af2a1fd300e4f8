package networks

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"coalmine/internal/seeds"
	"coalmine/models/optimizers"
)

// digits is a classifier of handwritten digits.
var digits = Config{Inputs: 28 * 28, Hidden: []int{64}, Classes: 10}

const digitsBatch = 32

// digitsFolder is where shared data lies; it is no part of the repository.
func digitsFolder() string {
	root := os.Getenv("COALMINE_DATA")
	if root == "" {
		root = "../../../shared/data"
	}
	return filepath.Join(root, "mnist-writers")
}

// readIDX reads the payload of an IDX file past its header.
func readIDX(t *testing.T, name string, header int) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join(digitsFolder(), name))
	if os.IsNotExist(err) {
		t.Skipf("no digits here: %v", err)
	}
	check(t, err)
	defer closing(t, f)
	z, err := gzip.NewReader(f)
	check(t, err)
	data, err := io.ReadAll(z)
	check(t, err)
	return data[header:]
}

func TestAClassifierLearnsHandwrittenDigits(t *testing.T) {
	t.Parallel()
	pixels, marks := readIDX(t, "t10k-images-idx3-ubyte.gz", 16), readIDX(t, "t10k-labels-idx1-ubyte.gz", 8)
	inputs, labels := make([]float32, len(pixels)), make([]int, len(marks))
	for i, p := range pixels {
		inputs[i] = float32(p) / 255
	}
	for i, m := range marks {
		labels[i] = int(m)
	}
	const training, held = 8000, 2000
	c := mustNew(t, digits)
	params := c.Init(seeds.Stream(1, seeds.Weights))
	learn(t, c, params, inputs[:training*digits.Inputs], labels[:training])

	scorer, err := c.NewScorer(held)
	check(t, err)
	defer closing(t, scorer)
	guesses, err := scorer.Classify(params, inputs[training*digits.Inputs:])
	check(t, err)
	right := 0
	for i, guess := range guesses {
		if guess == labels[training+i] {
			right++
		}
	}
	// Seed and data are fixed, so the outcome is too: chance alone gives 10%.
	if share := float64(right) / held; share < 0.94 {
		t.Errorf("%.1f%% of the held-out digits are right, want at least 94%%", 100*share)
	} else {
		t.Logf("%.1f%% of the held-out digits are right", 100*share)
	}
}

// learn makes five passes over the examples, at a rate that falls to nothing: at a
// steady one the last batches alone move the outcome by a percent.
func learn(t *testing.T, c *Classifier, params, inputs []float32, labels []int) {
	t.Helper()
	trainer, err := c.NewTrainer(digitsBatch)
	check(t, err)
	defer closing(t, trainer)
	rule, err := optimizers.New(optimizers.Config{Kind: optimizers.Momentum, Momentum: 0.9}, len(params))
	check(t, err)
	gradient := make([]float32, len(params))
	batches := len(labels) / digitsBatch
	steps := 5 * batches
	schedule := optimizers.Schedule{Kind: optimizers.Cosine}.For(steps)
	for step := range steps {
		from := step % batches * digitsBatch
		to := from + digitsBatch
		_, err := trainer.Gradient(params, inputs[from*digits.Inputs:to*digits.Inputs], labels[from:to], gradient)
		check(t, err)
		rule.Step(params, gradient, schedule.Rate(0.05, step))
	}
}
