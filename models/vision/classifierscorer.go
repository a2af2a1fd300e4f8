package vision

import (
	"slices"

	"coalmine/internal/kernels"
	"coalmine/models"
)

const classifiedAtOnce = 32

// classifying applies one set of parameters of a Classifier. It implements models.Classifier.
type classifying struct {
	trace  classifierTrace
	params []float32
}

// NewClassifier implements models.Classifying.
func (c *Classifier) NewClassifier(params []float32) models.Classifier {
	return &classifying{classifierTrace{network: &c.convolutional}, params}
}

func (c *classifying) Classify(examples [][]int32) ([]models.Prediction, error) {
	network := c.trace.network
	if err := models.CheckParameters(network, c.params); err != nil {
		return nil, err
	}
	for _, e := range examples {
		if err := checkExample(network.Config().Image.ImageShape, e); err != nil {
			return nil, err
		}
	}
	predictions := make([]models.Prediction, 0, len(examples))
	for batch := range slices.Chunk(examples, classifiedAtOnce) {
		predictions = c.classify(predictions, batch)
	}
	return predictions, nil
}

func (c *classifying) classify(predictions []models.Prediction, batch [][]int32) []models.Prediction {
	t := &c.trace
	t.resize(len(batch))
	readImages(t.images, batch, 1)
	w := t.network.views(c.params)
	t.forward(&w)
	for i, e := range batch {
		logits := part(t.logits, i, i+1, t.network.dense[1].out)
		features := part(t.features, i, i+1, t.network.dense[0].out)
		predictions = append(predictions, predict(labelOf(e), logits, features))
	}
	return predictions
}

func predict(label int, logits, features []float32) models.Prediction {
	most := kernels.Max(logits)
	probabilities := make([]float32, len(logits))
	total := kernels.ExpSum(probabilities, logits, most)
	kernels.Scale(float32(1/total), probabilities)
	p := models.Prediction{
		Label:         max(models.NoLabel, label),
		Class:         max(0, slices.Index(logits, most)), // 0 for NaN
		Logits:        slices.Clone(logits),
		Features:      slices.Clone(features),
		Probabilities: probabilities,
	}
	if label >= 0 {
		p.Loss = kernels.LogFloat64(total) - float64(logits[label]-most)
	}
	return p
}
