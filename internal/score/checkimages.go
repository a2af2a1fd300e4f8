package score

import (
	"context"
	"errors"
	"slices"

	"coalmine/internal/conformance"
)

// imageChecks are made of a model of images in place of checks.
var imageChecks = []check{
	{"describes itself", DescribeFirst, func(*checker) error { return nil }}, // by starting
	{"classifies several images in their order", ClassesAddUp, (*checker).imageOrder},
	{"answers several requests under way, each by its id", OneAnswerEach, (*checker).imagesTogether},
	{"answers an unknown method by an error, and goes on", UnknownMethods, (*checker).unknown},
	{"gives equal requests equal answers", Deterministic, (*checker).imagesAgain},
	{"ends with its input", EndsWithItsInput, (*checker).end},
}

// checkedImages is how many images are asked about.
const checkedImages = 5

// CheckImages is Check for a command that classifies images of a shape, which are made up.
func CheckImages(ctx context.Context, o Options, s Shape, classes int) (*Report, error) {
	c := newChecker(ctx, o)
	c.shape, c.classes = s, classes
	for i := range checkedImages {
		c.images = append(c.images, conformance.Image(s.Height*s.Width*s.Channels, classes, i))
	}
	return c.run(imageChecks)
}

func (c *checker) classify(images [][]byte, batch int) ([][]float64, error) {
	return c.client.Classify(c.ctx, c.shape, images, c.classes, batch)
}

// imageOrder asks for images, and for the same from the last to the first.
func (c *checker) imageOrder() error {
	first, err := c.classify(c.images, checkedImages)
	if err != nil {
		return err
	}
	images := slices.Clone(c.images)
	slices.Reverse(images)
	second, err := c.classify(images, checkedImages)
	if err != nil {
		return err
	}
	slices.Reverse(second)
	for i := range first {
		if class := unlike(first[i], second[i]); class >= 0 {
			return ClassesAddUp.Broken("it gives class %d of image %d the log-probability %g, and %g when they are asked from the last to the first", class, i+1, first[i][class], second[i][class])
		}
	}
	return nil
}

// unlike is the first class whose log-probabilities cannot be of one image, -1 for none.
func unlike(a, b []float64) int {
	for i := range a {
		if !alike(a[i], b[i]) {
			return i
		}
	}
	return -1
}

// imagesTogether asks for images in requests of their own.
func (c *checker) imagesTogether() error {
	batch, err := c.classify(c.images, checkedImages)
	if err != nil {
		return err
	}
	alone, err := c.classify(c.images, 1)
	if err != nil {
		return err
	}
	for i := range batch {
		if class := unlike(batch[i], alone[i]); class >= 0 {
			return OneAnswerEach.Broken("it gives class %d of image %d the log-probability %g among others, and %g in a request of its own beside others; does an answer have the id of another request?", class, i+1, batch[i][class], alone[i][class])
		}
	}
	return nil
}

func (c *checker) imagesAgain() error {
	if !c.client.Description.Deterministic {
		return conformance.SkipBecause(errors.New("it does not call itself deterministic"))
	}
	first, err := c.classify(c.images, checkedImages)
	if err != nil {
		return err
	}
	second, err := c.classify(c.images, checkedImages)
	if err != nil {
		return err
	}
	for i := range first {
		if !slices.Equal(first[i], second[i]) {
			return Deterministic.Broken("it answers image %d of a request by %v, and of the same request the second time by %v; expected the same, since it calls itself deterministic", i+1, first[i], second[i])
		}
	}
	return nil
}
