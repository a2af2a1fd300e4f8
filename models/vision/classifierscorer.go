package vision

import (
	"fmt"

	"coalmine/models"
)

// scoredAtOnce is the number of images whose scores are computed together.
const scoredAtOnce = 32

// Scores are what a classifier says of images.
type Scores struct {
	// Logits are [images, classes], row-major: log probabilities up to a constant of a row.
	Logits []float32
	// Features are the outputs of the last hidden layer, [images, units], row-major.
	Features []float32
	// Classes and Units are the widths of the rows.
	Classes, Units int
}

// Class is the label that the classifier finds likeliest for an image; of equal ones the
// first.
func (s *Scores) Class(image int) int {
	best, logits := 0, part(s.Logits, image, image+1, s.Classes)
	for class, logit := range logits {
		if logit > logits[best] {
			best = class
		}
	}
	return best
}

// Scorer applies one set of parameters of a Classifier. It is not safe for concurrent use.
type Scorer struct {
	trace   classifierTrace
	weights classifierWeights
}

// NewScorer returns a scorer, which keeps params and reads them later.
func (c *Classifier) NewScorer(params []float32) (*Scorer, error) {
	if err := models.CheckParameters(c, params); err != nil {
		return nil, err
	}
	return &Scorer{classifierTrace{network: c}, c.views(params)}, nil
}

// Score scores images of values in [0, 255], as Values and Generator.Sample give them. An
// image's scores do not depend on the other images.
func (s *Scorer) Score(images [][]float32) (*Scores, error) {
	c := s.trace.network
	scores := &Scores{Classes: c.dense[1].out, Units: c.dense[0].out}
	for from := 0; from < len(images); from += scoredAtOnce {
		if err := s.score(images[from:min(len(images), from+scoredAtOnce)]); err != nil {
			return nil, err
		}
		scores.Logits = append(scores.Logits, s.trace.logits...)
		scores.Features = append(scores.Features, s.trace.features...)
	}
	return scores, nil
}

// score runs the network over so few images that they fit at once.
func (s *Scorer) score(images [][]float32) error {
	s.trace.resize(len(images))
	size := s.trace.network.conv[0].in.values()
	for i, image := range images {
		if len(image) != size {
			return fmt.Errorf("an image has %d values, want %d", len(image), size)
		}
		for j, v := range image {
			s.trace.images[i*size+j] = toUnit(v)
		}
	}
	s.trace.forward(&s.weights)
	return nil
}
