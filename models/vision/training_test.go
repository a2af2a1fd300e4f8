package vision

import (
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/models"
)

// barsOf draws images with noise and one bright column, whose third of the width is the label.
func barsOf(rng *rand.Rand, n int) [][]int32 {
	shape := models.ImageShape{Width: 18, Height: 18, Channels: 1, Classes: 3}
	examples := drawExamples(rng, shape, n)
	for _, e := range examples {
		label := int(e[1]) - firstWord
		column := 6*label + rng.IntN(6)
		for i, v := range e[2:] {
			e[2+i] = firstWord + (v-firstWord)/2
			if i%18 == column {
				e[2+i] = firstWord + 255
			}
		}
	}
	return examples
}

// Seeds are fixed, so the outcome is too: chance alone gives a third.
func TestAClassifierLearnsWhereABarIs(t *testing.T) {
	t.Parallel()
	c := classifierOf(t, models.ImageShape{Width: 18, Height: 18, Channels: 1, Classes: 3}, classifierSizes{[3]int{8, 8, 8}, 16})
	rng := testRand(1)
	params, gradient, learner := c.Init(rng), make([]float32, c.Parameters()), c.NewLearner(nil)
	for range 300 {
		_, err := learner.Gradient(params, barsOf(rng, 16), gradient)
		check(t, err)
		kernels.Axpy(-0.1, gradient, params)
	}
	predictions, err := c.NewClassifier(params).Classify(barsOf(rng, 200))
	check(t, err)
	right := 0
	for _, p := range predictions {
		if p.Class == p.Label {
			right++
		}
	}
	if right < 190 {
		t.Errorf("%d of 200 bars are found, want at least 190", right)
	}
}

// Of data whose images are bright on one side, some on the left and some on the right, a
// generator learns to make such images. Before training its images are grey.
func TestAGANLearnsThatOneSideIsBright(t *testing.T) {
	t.Parallel()
	for _, a := range []models.Adversarial{
		{Latent: 4, Normalization: models.BatchNorm, Penalty: models.NoPenalty}, // a penalty of batches slows it down a lot
		{Latent: 4, Normalization: models.LayerNorm, Penalty: 1},
		{Latent: 4, Normalization: models.NoNorm, Loss: models.Minimax},
	} {
		t.Run(string(a.Normalization), func(t *testing.T) {
			t.Parallel()
			g := ganOf(t, models.ImageShape{Width: 8, Height: 8, Channels: 1, Classes: 1}, a, ganSizes{[2]int{4, 8}, [3]int{8, 8, 4}, 16})
			rng := testRand(3)
			params, gradient := g.Init(rng), make([]float32, g.Parameters())
			learner, generator := learnerOf(g, params, 4), g.NewGenerator(params).(*Generator)
			before := contrast(t, generator)
			for range 300 {
				_, err := learner.Gradient(params[:g.Trained()], halvesOf(rng, 16), gradient[:g.Trained()])
				check(t, err)
				kernels.Axpy(-0.02, gradient[:g.Trained()], params[:g.Trained()])
				learner.Track(params[:g.Trained()])
				_, err = generator.Gradient(rng, 16, gradient[g.Trained():])
				check(t, err)
				kernels.Axpy(-0.05, gradient[g.Trained():], params[g.Trained():])
				generator.Track(params)
			}
			if after := contrast(t, generator); after < 100 || before > 50 {
				t.Errorf("one side is brighter by %.0f, before training by %.0f: want more than 100, and less than 50", after, before)
			}
		})
	}
}

// halvesOf draws images of which one half is bright.
func halvesOf(rng *rand.Rand, n int) [][]int32 {
	examples := make([][]int32, n)
	for i := range examples {
		examples[i] = []int32{1, firstWord}
		right := rng.IntN(2) == 1
		for j := range 64 {
			level := rng.IntN(64)
			if j%8 < 4 != right {
				level = 255 - level
			}
			examples[i] = append(examples[i], firstWord+int32(level))
		}
	}
	return examples
}

// contrast returns how much brighter one half of a generated image is, on average.
func contrast(t *testing.T, g *Generator) (mean float64) {
	t.Helper()
	images, err := g.Generate(testRand(5), 64)
	check(t, err)
	for _, image := range images {
		difference := 0.0
		for j, v := range image {
			if j%8 < 4 {
				difference += float64(v)
			} else {
				difference -= float64(v)
			}
		}
		mean += math.Abs(difference) / 32 / float64(len(images))
	}
	return mean
}
