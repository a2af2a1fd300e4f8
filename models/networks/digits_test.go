package networks

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"coalmine/internal/seeds"
	"coalmine/internal/shareddata"
	"coalmine/models/optimizers"
)

// digits is a classifier of handwritten digits.
var digits = Config{Inputs: 28 * 28, Hidden: []int{64}, Classes: 10}

const digitsBatch = 32

// Files of a data set of digits, and the sizes of their headers.
const (
	pixelsFile, pixelsHeader = "t10k-images-idx3-ubyte.gz", 16
	labelsFile, labelsHeader = "t10k-labels-idx1-ubyte.gz", 8
)

// readIDX reads the payload of an IDX file past its header.
func readIDX(t *testing.T, path string, header int) []byte {
	t.Helper()
	f, err := os.Open(path)
	check(t, err)
	defer closing(t, f)
	z, err := gzip.NewReader(f)
	check(t, err)
	data, err := io.ReadAll(z)
	check(t, err)
	return data[header:]
}

// Seed and data are fixed, so the outcome is too: chance alone gives 10%.
func TestAClassifierLearnsDigits(t *testing.T) {
	t.Parallel()
	t.Run("drawn", func(t *testing.T) {
		t.Parallel()
		learnsDigits(t, drawnDigits(t, 3000), 2500, 0.94)
	})
	t.Run("handwritten", func(t *testing.T) {
		t.Parallel()
		learnsDigits(t, shareddata.Dir(t, "mnist-writers"), 8000, 0.94)
	})
}

// learnsDigits trains on the first digits of a folder, and tests on the others, of
// which at least a share must be right.
func learnsDigits(t *testing.T, folder string, training int, least float64) {
	t.Helper()
	pixels, marks := readIDX(t, filepath.Join(folder, pixelsFile), pixelsHeader), readIDX(t, filepath.Join(folder, labelsFile), labelsHeader)
	inputs, labels := make([]float32, len(pixels)), make([]int, len(marks))
	for i, p := range pixels {
		inputs[i] = float32(p) / 255
	}
	for i, m := range marks {
		labels[i] = int(m)
	}
	c := mustNew(t, digits)
	params := c.Init(seeds.Stream(1, seeds.Weights))
	learn(t, c, params, inputs[:training*digits.Inputs], labels[:training])

	held := len(labels) - training
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
	share := float64(right) / float64(held)
	t.Logf("%.1f%% of the held-out digits are right", 100*share)
	if share < least {
		t.Errorf("%.1f%% of the held-out digits are right, want at least %.0f%%", 100*share, 100*least)
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
