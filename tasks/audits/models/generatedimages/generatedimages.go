// Package generatedimages makes images by a trained generator and describes them, for a modeler
// without access to the training data (Augenstein et al. 2020, section 6):
//
//	audits/generated-images          some of the images of one checkpoint
//	audits/generated-images-summary  their statistics, a sheet of some of them, the outcome
package generatedimages

import (
	"context"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/vision"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

type Params struct {
	Seed uint64 `json:"seed"`
	// First is the number of the task's first image.
	First int `json:"first"`
	Count int `json:"count"`
}

// Kind makes images, drawn from stream First of seeds.GeneratedImages. Its input is audits.ModelInput, its
// blob ImagesBlob.
var Kind = tasks.Kind{Name: "audits/generated-images", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(run)}

// ImagesBlob has the images, each row by row, channels innermost, a byte for each value.
const ImagesBlob = "images"

func run(ctx context.Context, t *tasks.Task, p *Params) error {
	model, err := checkpoints.Read(ctx, t, audits.ModelInput)
	if err != nil {
		return err
	}
	images, err := generate(model, p)
	if err != nil {
		return tasks.Permanent(err)
	}
	return t.Put(ctx, ImagesBlob, slices.Concat(images...))
}

func generate(model *checkpoints.Model, p *Params) ([][]byte, error) {
	network, ok := model.Network.(models.Generating)
	if !ok {
		return nil, fmt.Errorf("a model of kind %s generates no images; expected %s", model.Network.Config().Kind, models.GAN)
	}
	return network.NewGenerator(model.Params).Generate(seeds.Stream(p.Seed, seeds.GeneratedImages, uint64(p.First)), p.Count)
}

// Generate makes the images of a checkpoint as an experiment with the seed does, and calls give with each:
// its values row by row, channels innermost. The image is valid until give returns.
func Generate(ctx context.Context, model *checkpoints.Model, seed uint64, count int, give func(image []byte) error) error {
	for _, span := range audits.Split(count, imagesATask) {
		if err := ctx.Err(); err != nil {
			return err
		}
		images, err := generate(model, &Params{Seed: seed, First: span.First, Count: span.Count})
		if err != nil {
			return err
		}
		for _, image := range images {
			if err := give(image); err != nil {
				return err
			}
		}
	}
	return nil
}

type SummaryParams struct {
	// Parts is the number of tasks that made Count images.
	Parts int `json:"parts"`
	Count int `json:"count"`
	// Rows and Columns are the size of the sheet.
	Rows         int     `json:"rows"`
	Columns      int     `json:"columns"`
	Significance float64 `json:"significance"`
	// Judged reports whether there is ClassifierInput.
	Judged bool `json:"judged,omitempty"`
}

// Inputs of audits/generated-images-summary in addition to its parts and audits.ModelInput.
const (
	// RealInput is datasets/encode, whose test part has the real images. With a classifier, it has no planted
	// faults.
	RealInput = "real"
	// ClassifierInput is the checkpoint of a classifier.
	ClassifierInput = "classifier"
)

// Summary describes the images of one checkpoint. Its inputs are the parts in their order,
// audits.ModelInput, RealInput, and ClassifierInput if there is one. Its blob is audits.OutcomeBlob, its
// metrics the numbers of curves.
var Summary = tasks.Kind{Name: "audits/generated-images-summary", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runSummary)}

func runSummary(ctx context.Context, t *tasks.Task, p *SummaryParams) error {
	model, err := checkpoints.Read(ctx, t, audits.ModelInput)
	if err != nil {
		return err
	}
	s := summary{params: p, shape: model.Network.Config().Image.ImageShape}
	if err := s.read(ctx, t); err != nil {
		return err
	}
	v := Outcome{Images: len(s.generated), Real: len(s.real), Significance: p.Significance}
	if v.Sheet, err = s.sheet(); err != nil {
		return tasks.Permanent(err)
	}
	v.measureIntensity(s.generated, s.real)
	if p.Judged {
		if err := s.judge(ctx, t, &v); err != nil {
			return err
		}
	}
	return audits.PutOutcome(ctx, t, measures, &v)
}

// summary has the images, each as its values.
type summary struct {
	params          *SummaryParams
	shape           models.ImageShape
	generated, real [][]byte
}

func (s *summary) read(ctx context.Context, t *tasks.Task) error {
	size := s.shape.Values()
	for i := range s.params.Parts {
		data, err := t.Blob(ctx, tasks.PartInput(i), ImagesBlob)
		if err != nil {
			return err
		}
		for ; len(data) >= size; data = data[size:] {
			s.generated = append(s.generated, data[:size])
		}
		if len(data) > 0 {
			return fmt.Errorf("%d bytes after the last image of part %d: %w", len(data), i, storage.ErrCorrupt)
		}
	}
	if len(s.generated) != s.params.Count {
		return fmt.Errorf("%d generated images, want %d: %w", len(s.generated), s.params.Count, storage.ErrCorrupt)
	}
	return s.readReal(ctx, t)
}

// readReal reads at most Count images of the test part.
func (s *summary) readReal(ctx context.Context, t *tasks.Task) error {
	part, err := population.OpenPart(ctx, t, RealInput, population.Test)
	if err != nil {
		return err
	}
	examples, err := part.ReadRecords(ctx, 0, min(part.Records(), s.params.Count))
	if err != nil {
		return err
	}
	for _, example := range examples {
		s.real = append(s.real, lists.Map(example[firstPixel:firstPixel+s.shape.Values()], func(token int32) byte { return byte(token - text.FirstWord) }))
	}
	if len(s.real) == 0 {
		return tasks.Permanent(fmt.Errorf("the test part is empty: raise data.test.fraction"))
	}
	return nil
}

// firstPixel is the index of the first value in an example, after Begin and the label.
const firstPixel = 2

func (s *summary) sheet() ([]byte, error) {
	shown := s.generated[:min(len(s.generated), s.params.Rows*s.params.Columns)]
	return images.Shape(s.shape).Sheet(shown, s.params.Columns)
}

func (s *summary) judge(ctx context.Context, t *tasks.Task, v *Outcome) error {
	model, err := checkpoints.Read(ctx, t, ClassifierInput)
	if err != nil {
		return err
	}
	network, ok := model.Network.(models.Classifying)
	if !ok {
		return tasks.Permanent(fmt.Errorf("a model of kind %s predicts no labels; expected %s", model.Network.Config().Kind, models.CNN))
	}
	classifier := network.NewClassifier(model.Params)
	made, err := classifier.Classify(asExamples(s.generated))
	if err == nil {
		var real []models.Prediction
		if real, err = classifier.Classify(asExamples(s.real)); err == nil {
			v.Classifier, err = compare(made, real)
		}
	}
	return tasks.Permanent(err)
}

// asExamples returns images in the form of a network, with the label 0.
func asExamples(images [][]byte) [][]int32 {
	token := func(value byte) int32 { return text.FirstWord + int32(value) }
	return lists.Map(images, func(image []byte) []int32 {
		return append([]int32{text.Begin, text.FirstWord}, lists.Map(image, token)...)
	})
}

func compare(made, real []models.Prediction) (*Judgement, error) {
	probabilities := func(p models.Prediction) []float32 { return p.Probabilities }
	logits := func(p models.Prediction) []float32 { return p.Logits }
	score, err := vision.ClassifierScore(lists.Map(made, probabilities))
	if err != nil {
		return nil, err
	}
	realScore, err := vision.ClassifierScore(lists.Map(real, probabilities))
	if err != nil {
		return nil, err
	}
	distance, err := vision.FrechetDistance(lists.Map(made, logits), lists.Map(real, logits))
	return &Judgement{score, realScore, distance}, err
}

// measureIntensity counts the images that are nearer to inverted than to upright handwriting: by mean
// intensity, which is about m, the mean of the real images, for upright images and 255 - m for inverted ones;
// and by the Euclidean distance to the mean real image and to its inverse.
func (v *Outcome) measureIntensity(generated, real [][]byte) {
	upright := meanImage(real)
	v.Intensity, v.RealIntensity = meanIntensity(meanImage(generated)), meanIntensity(upright)
	inverted := func(image []byte) bool { return nearerInIntensity(image, v.RealIntensity) }
	v.Inverted, v.RealInverted = shareOf(generated, inverted), shareOf(real, inverted)
	v.InvertedByMeans = shareOf(generated, func(image []byte) bool { return nearerToInverse(image, upright) })
}

func shareOf(images [][]byte, has func(image []byte) bool) audits.Share {
	return audits.NewShare(lists.Count(images, has), len(images))
}

func meanImage(images [][]byte) []float64 {
	mean := make([]float64, len(images[0]))
	for _, image := range images {
		for i, value := range image {
			mean[i] += float64(value)
		}
	}
	for i := range mean {
		mean[i] /= float64(len(images))
	}
	return mean
}

func meanIntensity[T byte | float64](image []T) float64 {
	sum := 0.0
	for _, value := range image {
		sum += float64(value)
	}
	return sum / float64(len(image))
}

// nearerInIntensity reports whether the mean of an image is nearer to 255 - upright than to upright.
func nearerInIntensity(image []byte, upright float64) bool {
	mean := meanIntensity(image)
	return (mean > white/2) == (upright < white/2) && mean != white/2
}

const white = 255.0

// nearerToInverse reports whether an image is nearer to the inverse of upright than to upright: |x - (255 -
// u)|² < |x - u|².
func nearerToInverse(image []byte, upright []float64) bool {
	difference := 0.0
	for i, value := range image {
		toUpright, toInverse := float64(value)-upright[i], float64(value)-(white-upright[i])
		difference += float64(toUpright*toUpright) - float64(toInverse*toInverse)
	}
	return difference > 0
}
