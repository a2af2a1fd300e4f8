package vision

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
)

func smallTagger(tb testing.TB) *Tagger {
	tb.Helper()
	config := models.Config{Kind: models.CNNTagger, Image: models.Image{ImageShape: smallImages}}
	check(tb, config.Validate())
	return &Tagger{newConvolutional(config, classifierSizes{[3]int{4, 5, 6}, 7})}
}

// drawTagged draws images of noise with labels of their own, and returns them also as those
// of a classifier.
func drawTagged(rng *rand.Rand, shape models.ImageShape, n int) (tagged, classified [][]int32) {
	classified = drawExamples(rng, shape, n)
	for _, e := range classified {
		x := e[:1:1]
		for range shape.Classes {
			x = append(x, firstWord+int32(rng.IntN(2)))
		}
		tagged = append(tagged, append(x, e[2:]...))
	}
	return tagged, classified
}

// binaryCrossEntropy is the mean over images and labels, by its definition.
func binaryCrossEntropy(logits reference, examples [][]int32) (mean float64) {
	labels := logits.shape[1]
	for i, e := range examples {
		for j := range labels {
			p := 1 / (1 + math.Exp(-logits.get(i, j)))
			if e[1+j] == firstWord {
				p = 1 - p
			}
			mean -= math.Log(p) / float64(labels*len(examples))
		}
	}
	return mean
}

func TestATaggersGradientEqualsCentralDifferences(t *testing.T) {
	t.Parallel()
	c := smallTagger(t)
	rng := testRand(11)
	params := drawParams(rng, c)
	examples, classified := drawTagged(rng, smallImages, 3)
	gradient := make([]float32, len(params))
	loss, err := c.NewLearner(nil).Gradient(params, examples, gradient)
	check(t, err)

	wide := widened(params)
	images, _ := imagesOf(smallImages, classified)
	lossAt := func() float64 {
		logits, _ := tensorsOf(c.Tensors(), wide).classify(images)
		return binaryCrossEntropy(logits, examples)
	}
	near(t, "loss", []float32{float32(loss.Mean())}, []float64{lossAt()}, 1e-5)
	if loss.Tokens != len(examples) {
		t.Errorf("%d targets, want one an image, %d", loss.Tokens, len(examples))
	}
	compareGradient(t, c.Tensors(), gradient, wide, lossAt)
}

func TestATaggersPredictionsEqualTheReferenceEachByItself(t *testing.T) {
	t.Parallel()
	c := smallTagger(t)
	rng := testRand(12)
	params := drawParams(rng, c)
	examples, classified := drawTagged(rng, smallImages, classifiedAtOnce+3)
	labeller := c.NewLabeller(params)
	all, err := labeller.Label(examples)
	check(t, err)
	images, _ := imagesOf(smallImages, classified[:2])
	logits, _ := tensorsOf(c.Tensors(), widened(params)).classify(images)
	for i := range 2 {
		want := make([]float64, smallImages.Classes)
		for j := range want {
			want[j] = 1 / (1 + math.Exp(-logits.get(i, j)))
			if all[i].Truth[j] != float32(examples[i][1+j]-firstWord) {
				t.Errorf("image %d: label %d is %v", i, j, all[i].Truth[j])
			}
		}
		near(t, "probability", all[i].Predicted, want, 1e-5)
	}
	last, err := labeller.Label(examples[len(examples)-1:])
	check(t, err)
	if !reflect.DeepEqual(all[len(all)-1], last[0]) {
		t.Errorf("an image is predicted as %+v by itself and %+v among others", last[0], all[len(all)-1])
	}
}

// The labels of noise have nothing to do with it: the network has to remember them.
func TestATaggerLearnsTheLabelsOfImages(t *testing.T) {
	t.Parallel()
	c := smallTagger(t)
	rng := testRand(13)
	params := c.Init(rng)
	examples, _ := drawTagged(rng, smallImages, 6)
	learner, gradient := c.NewLearner(nil), make([]float32, len(params))
	var first, last float64
	for step := range 300 {
		loss, err := learner.Gradient(params, examples, gradient)
		check(t, err)
		for i, g := range gradient {
			params[i] -= 0.5 * g
		}
		if step == 0 {
			first = loss.Mean()
		}
		last = loss.Mean()
	}
	if last > 0.1 || first < 0.5 {
		t.Errorf("loss %v at first and %v at last, want it to fall below 0.1", first, last)
	}
}

func TestTaggerRejectsBadBatches(t *testing.T) {
	t.Parallel()
	c := smallTagger(t)
	params, gradient := make([]float32, c.Parameters()), make([]float32, c.Parameters())
	tagged, _ := drawTagged(testRand(14), smallImages, 1)
	with := func(at int, value int32) [][]int32 {
		e := slices.Clone(tagged[0])
		e[at] = value
		return [][]int32{e}
	}
	for want, batch := range map[string][][]int32{
		"the batch is empty": {},
		"image 1 of a batch: it has 1139 numbers; expected a begin, 5 labels": {tagged[0], tagged[0][:1139]},
		"label 2 is 2: want 0 or 1":  with(3, firstWord+2),
		"label 0 is -1: want 0 or 1": with(1, firstWord-1),
		"value 0 is 256":             with(6, firstWord+levels),
	} {
		_, err := c.NewLearner(nil).Gradient(params, batch, gradient)
		must.Say(t, err, want)
	}
	if _, err := c.NewLearner(nil).Gradient(params[1:], tagged, gradient); err == nil || !strings.Contains(err.Error(), "parameter vector") {
		t.Errorf("short parameters: error %v", err)
	}
	if _, err := c.NewLabeller(params[1:]).Label(tagged); err == nil || !strings.Contains(err.Error(), "parameter vector") {
		t.Errorf("a labeller of too few parameters: error %v", err)
	}
	if _, err := c.NewLabeller(params).Label(with(3, 9)); err == nil {
		t.Error("a label of 5 is taken")
	}
	broken := slices.Clone(params)
	broken[0] = float32(math.NaN())
	if _, err := c.NewLabeller(broken).Label(tagged); !errors.As(err, new(*models.DivergedError)) {
		t.Errorf("predictions that are no numbers: error %v", err)
	}
}

func TestTooManyLabelsOfTaggerAreRejected(t *testing.T) {
	t.Parallel()
	shape := smallImages
	shape.Classes = models.MaxLabels + 1
	_, err := New(models.Config{Kind: models.CNNTagger, Image: models.Image{ImageShape: shape}})
	must.Say(t, err, "129 labels: want 1 to 128")
}
