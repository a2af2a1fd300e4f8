package generatedimages

import (
	"fmt"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Audit is that of generated images.
var Audit = audits.Description{
	Name: "generated_images",
	Legend: "Inverted: the share of generated images that are nearer in mean intensity to inverted real images than to real ones. " +
		"Frechet: the distance of generated from real images in what the prepared classifier makes of them.",
	New:         func() audits.Fields { return new(Fields) },
	Limits:      limits,
	Kinds:       []tasks.Kind{Kind, Summary},
	Models:      audits.Images,
	Classifier:  true,
	OutcomeBlob: audits.OutcomeBlob,
	Outcome:     func() audits.Outcome { return new(Outcome) },
	Pictures:    audits.From((*Outcome).pictures),
	Measures: slices.Concat([]audits.Measure{
		{Name: "generated_images", Of: audits.Of(func(v *Outcome) int { return v.Images })},
		{Name: "generated_intensity", Of: audits.Of(func(v *Outcome) float64 { return v.Intensity })},
		{Name: "generated_real_intensity", Of: audits.Of(func(v *Outcome) float64 { return v.RealIntensity })},
		{
			Name: "generated_inverted", Of: audits.Of(func(v *Outcome) *audits.Bounded { return v.Inverted.Bounded() }), Header: "inverted %", Scale: audits.Percent, Digits: 1,
			Curve: &audits.Curve{Figure: "Generated images, %", Name: "nearer to inverted ones", Metric: "generated_inverted_percent", Most: audits.Hundred},
		},
		{Name: "generated_real_inverted", Of: audits.Of(func(v *Outcome) float64 { return v.RealInverted.Share })},
		{Name: "generated_inverted_by_means", Of: audits.Of(func(v *Outcome) float64 { return v.InvertedByMeans.Share })},
	}, audits.Within(func(v *Outcome) *Judgement { return v.Classifier },
		audits.Measure{Name: "generated_classifier_score", Of: audits.Of(func(j *Judgement) float64 { return j.Score })},
		audits.Measure{Name: "generated_real_classifier_score", Of: audits.Of(func(j *Judgement) float64 { return j.RealScore })},
		audits.Measure{Name: "generated_frechet_distance", Of: audits.Of(func(j *Judgement) float64 { return j.FrechetDistance }), Header: "Frechet", Scale: audits.Plain, Digits: 1},
	)),
}

// Outcome describes the generated images of a model.
type Outcome struct {
	// Images were generated, and compared with Real ones of the test part.
	Images int `json:"images"`
	Real   int `json:"real"`
	// Intensity is the mean value of the generated images, RealIntensity that of the real
	// ones, 0 to 255.
	Intensity     float64 `json:"intensity"`
	RealIntensity float64 `json:"real_intensity"`
	// Inverted is the share of generated images that are nearer in mean intensity to
	// inverted real images than to real ones; RealInverted the same of real ones.
	Inverted     audits.Share `json:"inverted"`
	RealInverted audits.Share `json:"real_inverted"`
	// InvertedByMeans is the share that is nearer to the mean of the inverted real images
	// than to the mean of the real ones, over all values.
	InvertedByMeans audits.Share `json:"inverted_by_means"`
	// Significance of a limit.
	Significance float64 `json:"significance"`
	// Classifier is the judgement of the prepared classifier; nil without one.
	Classifier *Judgement `json:"classifier,omitempty"`
	// Sheet is a PNG file with the first of the images.
	Sheet []byte `json:"sheet"`
}

// Judgement compares generated with real images by a classifier.
type Judgement struct {
	// Score is the classifier score of the generated images, RealScore that of real ones.
	Score     float64 `json:"score"`
	RealScore float64 `json:"real_score"`
	// FrechetDistance between the two, in the classifier's logits.
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

// said lists the measures of the images.
func (v *Outcome) said() string {
	note := fmt.Sprintf("%d; nearer to inverted than to upright ones are %s by mean intensity, %s by the mean image, and of %d real ones %.2f%% by mean intensity; mean intensity %.1f, of real ones %.1f",
		v.Images, v.Inverted.Percent(), v.InvertedByMeans.Percent(), v.Real, 100*v.RealInverted.Share, v.Intensity, v.RealIntensity)
	if j := v.Classifier; j != nil {
		note += fmt.Sprintf("; classifier score %.3f, of real ones %.3f; Frechet distance %.3f", j.Score, j.RealScore, j.FrechetDistance)
	}
	return note
}

// pictures returns figures 3, 6, 7 and 8 of the paper.
func (v *Outcome) pictures() []audits.Picture {
	return []audits.Picture{{Title: "generated images", Text: v.said(), PNG: v.Sheet}}
}
