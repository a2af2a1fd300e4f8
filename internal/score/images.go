package score

import (
	"context"
	"encoding/json"
	"math"

	"coalmine/internal/recovered"

	"coalmine/internal/conversation"
)

// Shape is that of images.
type Shape struct{ Height, Width, Channels int }

// images are some as a request has them.
type images struct {
	// Shape is [images, height, width, channels].
	Shape [4]int `json:"shape"`
	// Pixels are bytes in that order, the last index innermost; in base64.
	Pixels []byte `json:"pixels"`
}

// imagesOf puts images together.
func imagesOf(s Shape, list [][]byte) *images {
	all := &images{Shape: [4]int{len(list), s.Height, s.Width, s.Channels}}
	for _, pixels := range list {
		all.Pixels = append(all.Pixels, pixels...)
	}
	return all
}

// Classify returns the log-probabilities of so many classes for each image, in their order.
// Images are bytes, row by row, channels innermost; requests have batch of them each.
func (c *Client) Classify(ctx context.Context, s Shape, list [][]byte, classes, batch int) ([][]float64, error) {
	if err := c.needs(Classify); err != nil {
		return nil, err
	}
	found := make([][]float64, len(list))
	err := c.inBatches(ctx, len(list), batch, func(ctx context.Context, first, end int) error {
		return c.request(ctx, Classify, payload{Images: imagesOf(s, list[first:end])}, func(result json.RawMessage) error {
			some, err := decodeClasses(result, end-first, classes)
			copy(found[first:], some)
			return err
		})
	})
	return found, err
}

// needs reports a method that the command does not have.
func (c *Client) needs(method string) error {
	if c.Description.Has(method) {
		return nil
	}
	return c.explain(DescribeFirst.Broken("its methods are %q; expected %q among them, which is asked here", c.Description.Methods, method))
}

// inBatches asks about so many things, batch of them at a time.
func (c *Client) inBatches(ctx context.Context, n, batch int, ask func(ctx context.Context, first, end int) error) error {
	group, within := recovered.WithContext(ctx)
	group.SetLimit(max(1, c.options.Concurrency))
	for first := 0; first < n && within.Err() == nil; first += batch {
		group.Go(func() error { return ask(within, first, min(first+batch, n)) })
	}
	err := group.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// sumTolerance is by how much the probabilities of classes may miss 1 together: models that compute
// in 16 bits round.
const sumTolerance = 0.01

// decodeClasses checks the answers to so many images.
func decodeClasses(result json.RawMessage, images, classes int) ([][]float64, error) {
	var list [][]json.RawMessage
	if err := json.Unmarshal(result, &list); err != nil {
		return nil, ClassesAddUp.Broken("it answered %s: %v", conversation.Quote(result), err)
	}
	if len(list) != images {
		return nil, ClassesAddUp.Broken("it gave %d answers to %d images; expected one for each", len(list), images)
	}
	found := make([][]float64, images)
	for i, texts := range list {
		if len(texts) != classes {
			return nil, ClassesAddUp.Broken("its answer to image %d has %d log-probabilities; expected one for each of %d classes", i+1, len(texts), classes)
		}
		sum := 0.0
		for _, text := range texts {
			p, err := decodeLogProb(text)
			if err != nil {
				return nil, err
			}
			found[i] = append(found[i], p)
			sum += math.Exp(p)
		}
		if math.Abs(sum-1) > sumTolerance {
			return nil, ClassesAddUp.Broken("the probabilities of image %d add up to %.4g; expected 1", i+1, sum)
		}
	}
	return found, nil
}
