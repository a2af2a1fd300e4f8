package utility

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/lists"
	"coalmine/models"
	"coalmine/models/ranking"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
)

// labelsBlob has the labels of texts: for each text the truth and then the prediction, partMetrics.Outputs
// float32 each.
const labelsBlob = "labels"

// partMetrics are the metrics of evaluation/part.
type partMetrics struct {
	models.Evaluation
	// Kind is set for a model that predicts labels of texts, with Outputs. The evaluation then counts texts.
	Kind    models.Kind `json:"kind,omitempty"`
	Outputs int         `json:"outputs,omitempty"`
	// RecallUnknown is the reason why hits are unknown, or "".
	RecallUnknown string `json:"recall_unknown,omitempty"`
}

type labelledTexts struct {
	kind  models.Kind
	texts []models.Labelled
}

func (l *labelledTexts) evaluate(labeller models.Labeller, examples [][]int32) (models.Evaluation, error) {
	labelled, err := labeller.Label(examples)
	if err != nil {
		return models.Evaluation{}, err
	}
	l.texts = append(l.texts, labelled...)
	var tally models.Tally
	for _, text := range labelled {
		tally.Tokens++
		tally.Loss += deviation(text)
	}
	return models.Evaluation{Counted: tally, All: tally}, nil
}

// deviation returns the mean absolute difference between truth and prediction.
func deviation(text models.Labelled) (mean float64) {
	for i, truth := range text.Truth {
		mean += math.Abs(float64(text.Predicted[i]-truth)) / float64(len(text.Truth))
	}
	return mean
}

func (l *labelledTexts) put(ctx context.Context, t *tasks.Task) error {
	values := lists.Map(l.texts, func(text models.Labelled) []float32 { return slices.Concat(text.Truth, text.Predicted) })
	return t.Put(ctx, labelsBlob, safetensors.AppendFloats(nil, slices.Concat(values...)))
}

func (l *labelledTexts) read(ctx context.Context, t *tasks.Task, input string, m *partMetrics) error {
	data, err := t.Blob(ctx, input, labelsBlob)
	if err != nil {
		return err
	}
	size := 2 * m.Outputs
	if m.Outputs < 1 || int64(len(data)) != 4*int64(size)*m.All.Tokens {
		return fmt.Errorf("labels of %d texts in %d bytes: %w", m.All.Tokens, len(data), storage.ErrCorrupt)
	}
	l.kind = m.Kind
	all := make([]float32, len(data)/4)
	safetensors.CopyFloats(all, data)
	for values := range slices.Chunk(all, size) {
		l.texts = append(l.texts, models.Labelled{Truth: values[:m.Outputs], Predicted: values[m.Outputs:]})
	}
	return nil
}

func (l *labelledTexts) outcome() (*Outcome, error) {
	if len(l.texts) == 0 {
		return nil, errors.New("the test part holds no text: raise data.test.fraction")
	}
	measure := MeanAveragePrecision
	if l.kind == models.Regressor {
		measure = func(texts []models.Labelled) (float64, error) { return MeanAbsoluteError(texts), nil }
	}
	value, err := measure(l.texts)
	if err != nil {
		return nil, err
	}
	v := &Outcome{Tokens: int64(len(l.texts))}
	if l.kind == models.Regressor {
		v.MeanAbsoluteError = &value
		return v, nil
	}
	v.MeanAveragePrecision = &value
	v.Baseline = &Outcome{Tokens: v.Tokens, MeanAveragePrecision: new(0.0)}
	*v.Baseline.MeanAveragePrecision, err = MeanAveragePrecision(l.alike())
	return v, err
}

// alike returns the texts with one prediction for all.
func (l *labelledTexts) alike() []models.Labelled {
	return lists.Map(l.texts, func(text models.Labelled) models.Labelled {
		text.Predicted = make([]float32, len(text.Truth))
		return text
	})
}

// MeanAbsoluteError returns the error of the scores of texts, NaN without texts.
func MeanAbsoluteError(texts []models.Labelled) float64 {
	sum := 0.0
	for _, text := range texts {
		sum += deviation(text)
	}
	return sum / float64(len(texts))
}

// MeanAveragePrecision returns the mean, over labels that occur, of the average precision of the texts with
// the label, ranked by probability.
func MeanAveragePrecision(texts []models.Labelled) (float64, error) {
	sum, counted := 0.0, 0
	for label := range texts[0].Truth {
		scores, relevant := make([]float32, len(texts)), make([]bool, len(texts))
		for i, text := range texts {
			scores[i], relevant[i] = text.Predicted[label], text.Truth[label] > 0
		}
		if !slices.Contains(relevant, true) {
			continue
		}
		precision, err := ranking.AveragePrecision(scores, relevant)
		if err != nil {
			return 0, err
		}
		sum, counted = sum+precision, counted+1
	}
	if counted == 0 {
		return 0, errors.New("no text of the test part has any of data.tags: name tags that texts have, or raise data.test.fraction")
	}
	return sum / float64(counted), nil
}
