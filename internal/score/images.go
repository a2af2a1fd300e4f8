package score

import (
	"context"
	"encoding/json"
	"math"
)

// Shape is the shape of images.
type Shape struct{ Height, Width, Channels int }

// Images holds the images of a request.
type Images struct {
	// Shape is [images, height, width, channels].
	Shape [4]int `json:"shape"`
	// Pixels are bytes in that order, the last index innermost; in base64.
	Pixels []byte `json:"pixels"`
}

// ImagesOf combines images of a shape.
func ImagesOf(s Shape, list [][]byte) *Images {
	all := &Images{Shape: [4]int{len(list), s.Height, s.Width, s.Channels}}
	for _, pixels := range list {
		all.Pixels = append(all.Pixels, pixels...)
	}
	return all
}

// Classify returns the log-probabilities of the given number of classes for each image, in order.
// Images are bytes, row by row, channels innermost; each request has up to batch images.
func (c *Client) Classify(ctx context.Context, s Shape, list [][]byte, classes, batch int) ([][]float64, error) {
	return inBatches(ctx, c, Classify, list, batch, func(some [][]byte) payload { return payload{Images: ImagesOf(s, some)} },
		func(result json.RawMessage, n int) ([][]float64, error) { return decodeClasses(result, n, classes) })
}

// sumTolerance is the permitted deviation of the sum of class probabilities from 1: models that compute
// in 16 bits round.
const sumTolerance = 0.01

// decodeClasses decodes the log-probabilities of the classes of images.
func decodeClasses(result json.RawMessage, images, classes int) ([][]float64, error) {
	list, err := listOf[[]json.RawMessage](ClassesAddUp, result, images, "images")
	if err != nil {
		return nil, err
	}
	found := make([][]float64, images)
	for i, texts := range list {
		if len(texts) != classes {
			return nil, ClassesAddUp.Broken("its answer to image %d has %d log-probabilities; expected one for each of %d classes", i+1, len(texts), classes)
		}
		if found[i], err = decodeRow(texts, "image", i); err != nil {
			return nil, err
		}
		sum := 0.0
		for _, p := range found[i] {
			sum += math.Exp(p)
		}
		if math.Abs(sum-1) > sumTolerance {
			return nil, ClassesAddUp.Broken("the probabilities of image %d add up to %.4g; expected 1", i+1, sum)
		}
	}
	return found, nil
}
