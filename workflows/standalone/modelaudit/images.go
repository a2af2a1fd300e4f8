package modelaudit

import (
	"context"
	"fmt"

	"coalmine/internal/contactsheet"
	"coalmine/models"
	"coalmine/tasks/audits/models/generatedimages"
	"coalmine/tasks/checkpoints"
)

// Generator is a finished model that makes images.
type Generator struct {
	// Width and Height of an image are in pixels; Channels is the number of values of a pixel.
	Width, Height, Channels int
	model                   *checkpoints.Model
}

// OpenGenerator reads a file of coalmine export. It returns false for a model that
// makes no images, such as a language model.
func OpenGenerator(file []byte) (*Generator, bool, error) {
	model, err := checkpoints.Decode(file)
	if err != nil {
		return nil, false, err
	}
	if _, ok := model.Network.(models.Generating); !ok {
		return nil, false, nil
	}
	shape := model.Network.Config().Image.ImageShape
	return &Generator{Width: shape.Width, Height: shape.Height, Channels: shape.Channels, model: model}, true, nil
}

// Images makes images, one after another, each as values from 0 to 255, row by row, channels
// innermost. With the seed of an experiment, they are those of its audit.generated_images.
func (g *Generator) Images(ctx context.Context, seed uint64, count int, give func(image []byte) error) error {
	if count < 1 || count > MaxSamples {
		return fmt.Errorf("%d images: expected from 1 to %d", count, MaxSamples)
	}
	return generatedimages.Generate(ctx, g.model, seed, count, give)
}

// Sheet returns a PNG file with the images in the given number of columns.
func (g *Generator) Sheet(images [][]byte, columns int) ([]byte, error) {
	return contactsheet.Draw(images, g.shape(), columns)
}

// PNG returns a PNG file with one image.
func (g *Generator) PNG(image []byte) ([]byte, error) { return contactsheet.PNG(image, g.shape()) }

func (g *Generator) shape() contactsheet.Shape {
	return contactsheet.Shape{Width: g.Width, Height: g.Height, Channels: g.Channels}
}
