package vision

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
)

// smallImages are of a size that is not square, in colours.
var smallImages = models.ImageShape{Width: 18, Height: 21, Channels: 3, Classes: 5}

// digits are grey images of 28 x 28 in 36 classes.
var digits = models.ImageShape{Width: 28, Height: 28, Channels: 1, Classes: 36}

func classifierOf(tb testing.TB, shape models.ImageShape, sizes classifierSizes) *Classifier {
	tb.Helper()
	config := models.Config{Kind: models.CNN, Image: models.Image{ImageShape: shape}}
	check(tb, config.Validate())
	return &Classifier{newConvolutional(config, sizes)}
}

func smallClassifier(tb testing.TB) *Classifier {
	return classifierOf(tb, smallImages, classifierSizes{[3]int{4, 5, 6}, 7})
}

func TestAClassifiersGradientEqualsCentralDifferences(t *testing.T) {
	t.Parallel()
	c := smallClassifier(t)
	rng := testRand(1)
	params, examples := drawParams(rng, c), drawExamples(rng, smallImages, 3)
	gradient := make([]float32, len(params))
	loss, err := c.NewLearner(nil).Gradient(params, examples, gradient)
	check(t, err)

	wide := widened(params)
	images, labels := imagesOf(smallImages, examples)
	lossAt := func() float64 {
		logits, _ := tensorsOf(c.Tensors(), wide).classify(images)
		return crossEntropyOf(logits, labels)
	}
	near(t, "loss", []float32{float32(loss.Mean())}, []float64{lossAt()}, 1e-5)
	if loss.Tokens != len(examples) {
		t.Errorf("%d targets, want one an image, %d", loss.Tokens, len(examples))
	}
	compareGradient(t, c.Tensors(), gradient, wide, lossAt)
}

func TestPredictionsOfThePapersClassifierEqualTheReference(t *testing.T) {
	t.Parallel()
	c := classifierOf(t, digits, paperClassifier)
	rng := testRand(2)
	params, examples := drawParams(rng, c), drawExamples(rng, digits, 2)
	predictions, err := c.NewClassifier(params).Classify(examples)
	check(t, err)
	images, labels := imagesOf(digits, examples)
	logits, features := tensorsOf(c.Tensors(), widened(params)).classify(images)
	for i, p := range predictions {
		near(t, "logit", p.Logits, logits.row(i).values, 1e-5)
		near(t, "feature", p.Features, features.row(i).values, 1e-5)
		want := crossEntropyOf(logits.row(i), labels[i:i+1])
		near(t, "loss", []float32{float32(p.Loss)}, []float64{want}, 1e-5)
		near(t, "probability of the label", p.Probabilities[p.Label:p.Label+1], []float64{math.Exp(-want)}, 1e-5)
		if best := slices.Index(p.Logits, slices.Max(p.Logits)); p.Class != best || p.Label != labels[i] {
			t.Errorf("class %d and label %d, want %d, whose logit is the largest, and %d", p.Class, p.Label, best, labels[i])
		}
	}
}

func TestPredictionDoesNotDependOnOtherImages(t *testing.T) {
	t.Parallel()
	c := smallClassifier(t)
	rng := testRand(3)
	classifier, examples := c.NewClassifier(drawParams(rng, c)), drawExamples(rng, smallImages, classifiedAtOnce+5)
	all, err := classifier.Classify(examples)
	check(t, err)
	last, err := classifier.Classify(examples[len(examples)-1:])
	check(t, err)
	if !reflect.DeepEqual(all[len(all)-1], last[0]) {
		t.Errorf("an image is predicted as %+v by itself and %+v among others", last[0], all[len(all)-1])
	}
}

func TestClassifierGradientDoesNotDependOnEarlierBatches(t *testing.T) {
	t.Parallel()
	c := smallClassifier(t)
	rng := testRand(4)
	params, examples := drawParams(rng, c), drawExamples(rng, smallImages, 9)
	used, fresh := make([]float32, len(params)), make([]float32, len(params))
	learner := c.NewLearner(nil)
	for _, batch := range [][][]int32{examples, examples[:4], examples[2:5]} {
		_, err := learner.Gradient(params, batch, used)
		check(t, err)
	}
	_, err := c.NewLearner(nil).Gradient(params, examples[2:5], fresh)
	check(t, err)
	if !slices.Equal(used, fresh) {
		t.Error("a learner that has seen other batches gives another gradient")
	}
}

func TestOfEqualPixelsTheFirstRemains(t *testing.T) {
	t.Parallel()
	a := area{4, 5, 1}
	x := []float32{
		1, 1, 0, 2, 9,
		1, 1, 3, 3, 9,
		-1, -2, 5, 4, 9,
		-3, -1, 5, 5, 9,
	}
	y := make([]float32, 4)
	maxPool(a, x, y, 1)
	if want := []float32{1, 3, -1, 5}; !slices.Equal(y, want) {
		t.Errorf("largest values %v, want %v", y, want)
	}
	maxPoolBackward(a, []float32{1, 2, 3, 4}, x, 1)
	want := []float32{
		1, 0, 0, 0, 0,
		0, 0, 2, 0, 0,
		3, 0, 4, 0, 0,
		0, 0, 0, 0, 0,
	}
	if !slices.Equal(x, want) {
		t.Errorf("gradient %v, want %v", x, want)
	}
}

func TestBadBatchesAreErrors(t *testing.T) {
	t.Parallel()
	c := smallClassifier(t)
	params, gradient := make([]float32, c.Parameters()), make([]float32, c.Parameters())
	good := drawExamples(testRand(5), smallImages, 1)[0]
	with := func(at int, value int32) []int32 {
		e := slices.Clone(good)
		e[at] = value
		return e
	}
	for want, batch := range map[string][][]int32{
		"the batch is empty": {},
		"image 1 of a batch: it has 1135 numbers; expected": {good, good[:len(good)-1]},
		"its label is 5: want 0 to 4":                       {with(1, 9)},
		"its label is -1":                                   {with(1, 3)},
		"value 7 is 256: want 0 to 255":                     {with(9, 260)},
		"value 0 is -1":                                     {with(2, 3)},
	} {
		_, err := c.NewLearner(nil).Gradient(params, batch, gradient)
		must.Say(t, err, want)
	}
	if _, err := c.NewLearner(nil).Gradient(params[1:], [][]int32{good}, gradient); err == nil || !strings.Contains(err.Error(), "parameter vector") {
		t.Errorf("short parameters: error %v", err)
	}
	if _, err := c.NewLearner(nil).Gradient(params, [][]int32{good}, gradient[1:]); err == nil || !strings.Contains(err.Error(), "the gradient has") {
		t.Errorf("short gradient: error %v", err)
	}
	if _, err := c.NewClassifier(params[1:]).Classify([][]int32{good}); err == nil || !strings.Contains(err.Error(), "parameter vector") {
		t.Errorf("a classifier of too few parameters: error %v", err)
	}
	if _, err := c.NewClassifier(params).Classify([][]int32{good[1:]}); err == nil {
		t.Error("an image of too few values is classified")
	}
}

func TestImagesTooSmallForTheClassifierAreRejected(t *testing.T) {
	t.Parallel()
	_, err := New(models.Config{Kind: models.CNN, Image: models.Image{ImageShape: models.ImageShape{Width: 28, Height: 17, Channels: 1, Classes: 10}}})
	must.Say(t, err, "28x17", "at least 18")
}
