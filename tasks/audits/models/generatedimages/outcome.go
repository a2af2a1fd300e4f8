package generatedimages

import (
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name: "generated_images",
	Legend: "Inverted: the share of generated images that are nearer in mean intensity to inverted real images than to real ones. " +
		"Frechet: the distance of generated from real images in the outputs of the prepared classifier.",
	Limits:      limits,
	Kinds:       []tasks.Kind{Kind, Summary},
	Models:      audits.Images,
	Classifier:  true,
	OutcomeBlob: audits.OutcomeBlob,
	// Figures 3, 6, 7 and 8 of the paper.
	Pictures: audits.From(func(v *Outcome) []audits.Picture {
		return []audits.Picture{{Title: "generated images", Text: v.said(), PNG: v.Sheet}}
	}),
	Measures: slices.Concat(audits.Columns[Outcome]("generated_", "images", "intensity", "real_intensity"), []audits.Measure{
		{
			Name: "generated_inverted", Of: audits.Of(func(v *Outcome) *audits.Interval { return v.Inverted.Interval() }), Header: "inverted %", Scale: audits.Percent, Digits: 1,
			Curve: &audits.Curve{Figure: "Generated images, %", Name: "nearer to inverted ones", Metric: "generated_inverted_percent", AxisEnd: audits.PercentAxisEnd},
		},
		{Name: "generated_real_inverted", Of: audits.Of(func(v *Outcome) float64 { return v.RealInverted.Share })},
		{Name: "generated_inverted_by_means", Of: audits.Of(func(v *Outcome) float64 { return v.InvertedByMeans.Share })},
	}, audits.Within(func(v *Outcome) *Judgement { return v.Classifier },
		audits.Measure{Name: "generated_classifier_score", Of: audits.Of(func(j *Judgement) float64 { return j.Score })},
		audits.Measure{Name: "generated_real_classifier_score", Of: audits.Of(func(j *Judgement) float64 { return j.RealScore })},
		audits.Measure{Name: "generated_frechet_distance", Of: audits.Of(func(j *Judgement) float64 { return j.FrechetDistance }), Header: "Frechet", Scale: audits.Plain, Digits: 1},
	)),
})

// Outcome describes the generated images of a model.
type Outcome struct {
	// Images is the number of generated images, compared with Real ones of the test part.
	Images int `json:"images"`
	Real   int `json:"real"`
	// Intensity is the mean value of the generated images, RealIntensity of the real ones, 0 to 255.
	Intensity     float64 `json:"intensity"`
	RealIntensity float64 `json:"real_intensity"`
	// Inverted is the share of generated images nearer in mean intensity to inverted real images than to real
	// ones; RealInverted is that of real images.
	Inverted     audits.Share `json:"inverted"`
	RealInverted audits.Share `json:"real_inverted"`
	// InvertedByMeans is the share nearer to the inverted mean image of the real ones than to the mean
	// image, over all values.
	InvertedByMeans audits.Share `json:"inverted_by_means"`
	Significance    float64      `json:"significance"`
	// Classifier is the prepared classifier's judgement. It may be nil.
	Classifier *Judgement `json:"classifier,omitempty"`
	// Sheet is a PNG file of the first images.
	Sheet []byte `json:"sheet"`
}

// Judgement compares generated with real images by a classifier.
type Judgement struct {
	// Score is the classifier score of generated images, RealScore of real ones.
	Score     float64 `json:"score"`
	RealScore float64 `json:"real_score"`
	// FrechetDistance is between them, in the classifier's logits.
	FrechetDistance float64 `json:"frechet_distance"`
}

func (v *Outcome) metrics() Metrics {
	m := Metrics{Inverted: 100 * v.Inverted.Share}
	if j := v.Classifier; j != nil {
		m.Score, m.Distance = &j.Score, &j.FrechetDistance
	}
	return m
}

func (v *Outcome) Note(*audits.Cell) string { return "generated images: " + v.said() }

func (v *Outcome) said() string {
	note := fmt.Sprintf("%d; nearer to inverted than to upright ones are %s by mean intensity, %s by the mean image, and of %d real ones %.2f%% by mean intensity; mean intensity %.1f, of real ones %.1f",
		v.Images, v.Inverted.Percent(), v.InvertedByMeans.Percent(), v.Real, 100*v.RealInverted.Share, v.Intensity, v.RealIntensity)
	if j := v.Classifier; j != nil {
		note += fmt.Sprintf("; classifier score %.3f, of real ones %.3f; Frechet distance %.3f", j.Score, j.RealScore, j.FrechetDistance)
	}
	return note
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
