package onerun

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

func (o *Block) ofImages(s *audits.Setting) bool {
	return !o.Vectors() && s.Reading.Level.Scheme().Images
}

// checkImages reports fields that do not fit canaries of images.
func (o *Block) checkImages(s *audits.Setting, fail audits.Fail) {
	fail.If(s.Generator, []string{path, "model.kind"}, "compares losses of labels, and a gan predicts none; expected model.kind: %s, or no such audit", models.CNN)
	fail.If(s.External != nil || s.Program != nil, []string{path, "model.kind", "training.client_command"},
		"scores canaries that are images by a model of Coalmine, and a program trains this one; expected model.kind: %s, or no such audit", models.CNN)
	fail.If(o.Design != "" && !o.Design.Random() && o.Design != canaries.Mislabelled, []string{path + ".design", "data.level"},
		"is %s, a choice of words, but data.level is %s; expected %s, an image of the data under another class, or %s", o.Design, s.Reading.Level, canaries.Mislabelled, canaries.RandomWords)
	fail.If(o.Words > 0, []string{path + ".words", "data.level"}, "is of canaries of words, but data.level is %s; remove it", s.Reading.Level)
	fail.If(s.Reading.Image.Classes < 2, []string{path, "data.image.classes"}, "labels images at random, and data.image.classes is %d; expected at least 2", s.Reading.Image.Classes)
}

// image draws a canary that is an image: random pixels of a random class, or for canaries.Mislabelled the record
// of the unit (of a user one at random) with a class drawn from the others.
func (d *design) image(ctx context.Context, u audits.Unit, rng *rand.Rand) (population.Canary, error) {
	p := d.params
	if p.Design.Random() {
		tokens := make([]int32, p.Words)
		for i := range tokens {
			tokens[i] = text.FirstWord + int32(rng.IntN(256))
		}
		class := rng.IntN(p.Classes)
		tokens[0] = text.FirstWord + int32(class)
		return population.Canary{Tokens: tokens, Words: []string{"random", "pixels", "as", strconv.Itoa(class)}}, nil
	}
	sentences, err := d.population.ReadUser(ctx, u.User)
	if err != nil {
		return population.Canary{}, err
	}
	if len(sentences) == 0 {
		return population.Canary{}, tasks.Permanent(fmt.Errorf("user %d has no image to mislabel; expected at least one of each user", u.User))
	}
	example := u.Example
	if example < 0 {
		example = rng.IntN(len(sentences))
	}
	tokens := slices.Clone(sentences[example][1:][:p.Words]) // after Begin
	own := int(tokens[0] - text.FirstWord)
	class := otherClass(rng, p.Classes, own)
	tokens[0] = text.FirstWord + int32(class)
	return population.Canary{Tokens: tokens, Words: []string{strconv.Itoa(own), "as", strconv.Itoa(class)}}, nil
}

// otherClass draws a class other than an image's own; of an image without a label, which is below 0, any class.
func otherClass(rng *rand.Rand, classes, own int) int {
	if own < 0 {
		return rng.IntN(classes)
	}
	class := rng.IntN(classes - 1)
	if class >= own {
		class++
	}
	return class
}

// labelCosts returns the losses of the labels of examples, in nats.
func labelCosts(ctx context.Context, c models.Classifier, examples [][]int32) ([]float64, error) {
	var costs []float64
	for block := range slices.Chunk(examples, sequenceBlock) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found, err := c.Classify(block)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if !numbers.IsFinite(p.Loss) {
				return nil, &models.DivergedError{Name: "loss of a canary", Value: p.Loss}
			}
			costs = append(costs, p.Loss)
		}
	}
	return costs, nil
}

func framed(tokens []int32) []int32 { return text.Frame(nil, tokens, len(tokens)) }
