package generatedimages

import (
	"fmt"
	"slices"

	"coalmine/internal/numbers"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name:        "generated_images",
	Limits:      limits,
	Kinds:       []tasks.Kind{Kind, Summary},
	Models:      audits.Images,
	Classifier:  true,
	OutcomeBlob: audits.OutcomeBlob,
	// Figures 3, 6, 7 and 8 of the paper.
	Pictures: audits.From(func(v *Outcome) []audits.Picture {
		return []audits.Picture{{Title: "generated images", Text: v.said(), PNG: v.Sheet}}
	}),
	Measures: measures,
})

var measures = slices.Concat(audits.Columns[Outcome]("generated_", "images", "intensity", "real_intensity"), []audits.Measure{
	{
		Name: "generated_inverted", Doc: "share of generated images that are nearer in mean intensity to inverted real images than to real ones", Of: audits.Of(func(v *Outcome) *audits.Interval { return v.Inverted.Interval() }), Header: "inverted %", Scale: audits.Percent, Digits: 1,
		Curve: &audits.Curve{Figure: "Generated images, %", Name: "nearer to inverted ones", Metric: "generated_inverted_percent"},
	},
	{Name: "generated_real_inverted", Of: audits.Of(func(v *Outcome) float64 { return v.RealInverted.Share }), Doc: "generated_inverted of real images"},
	{Name: "generated_inverted_by_means", Of: audits.Of(func(v *Outcome) float64 { return v.InvertedByMeans.Share }), Doc: "share of generated images nearer to the inverted mean image than to the mean image, over all values"},
}, audits.Within(func(v *Outcome) *Judgement { return v.Classifier },
	audits.Measure{Name: "generated_classifier_score", Of: audits.Of(func(j *Judgement) float64 { return j.Score }), Curve: &audits.Curve{}, Doc: "classifier score of generated images by the prepared classifier: higher for sure and diverse classes"},
	audits.Measure{Name: "generated_real_classifier_score", Of: audits.Of(func(j *Judgement) float64 { return j.RealScore }), Doc: "generated_classifier_score of real images"},
	audits.Measure{Name: "generated_frechet_distance", Of: audits.Of(func(j *Judgement) float64 { return j.FrechetDistance }), Header: "Frechet", Scale: audits.Plain, Digits: 1, Curve: &audits.Curve{}, Doc: "distance of generated from real images by Frechet, in the logits of the prepared classifier"},
))

type Fields struct {
	// Images of a gan's generator: the share nearer to inverted images, a classifier's view, and a sheet.
	GeneratedImages *Block `json:"generated_images,omitempty" source:"Augenstein et al. 2020, section 6"`
}

type Block struct {
	// Images made, and most test images compared.
	Count int `json:"count" default:"1000" range:"[2,1000000]" unit:"images"`
	// Rows of the sheet.
	Rows int `json:"rows" default:"6" range:"[1,100]" unit:"images" source:"Augenstein et al. 2020, figure 3"`
	// Columns of the sheet.
	Columns int `json:"columns" default:"6" range:"[1,100]" unit:"images" source:"Augenstein et al. 2020, figure 3"`
	// Probability of a false alarm of a gate on the images.
	Significance numbers.Probability `json:"significance" default:"0.1%" range:"(0,1)"`
}

const path = "audit.generated_images"

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	fail.If(!s.Generator, []string{path, "model.kind"}, "measures a generator, and the model has none; expected model.kind: gan, or no such audit")
	fail.If(!s.HasTest(), []string{path, "data.test.fraction"}, "compares with real images of the test part, but data.test.fraction is 0; raise it, or remove the audit")
}

func (f *Fields) CheckData(s *audits.Setting, d *audits.Data, fail audits.Fail) {
	fail.If(d.TestExamples < 2, []string{"data.test.fraction"}, "is %s, which leaves %d images in the test part of %s; expected two at least, for %s", s.TestFraction, d.TestExamples, d.Source, path)
}

// imagesATask is the number of images per task: a few seconds' work with the paper's model. A task draws from
// one stream, so the number affects results.
const imagesATask = 1000

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	p := f.GeneratedImages
	model := tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}
	real := tasks.Input{Name: RealInput, Key: b.Parts()}
	classifier, clean, judged := b.Classifier()
	if judged {
		real.Key = clean
	}
	inputs := []tasks.Input{model, real}
	if judged {
		inputs = append(inputs, tasks.Input{Name: ClassifierInput, Key: classifier})
	}
	spans := audits.Split(p.Count, imagesATask)
	for i, span := range spans {
		part := b.Node(Kind, fmt.Sprintf("images from %d on after %d", span.First, round),
			Params{Seed: b.Setting().Seed, First: span.First, Count: span.Count}, model)
		inputs = append(inputs, tasks.Input{Name: tasks.PartInput(i), Key: part})
	}
	return b.Node(Summary, fmt.Sprintf("what generated images are like after %d", round), SummaryParams{
		Parts: len(spans), Count: p.Count, Rows: p.Rows, Columns: p.Columns, Significance: p.Significance.Float64(), Judged: judged,
	}, inputs...)
}

func (f *Fields) States(*audits.Setting) float64 { return 3 * float64(f.GeneratedImages.Count) }

var limits = []audits.Limit{audits.LimitOf[numbers.Probability]{
	Name: "generated_inverted", Range: "(0,1)",
	Doc: "Share of generated images nearer in mean intensity to inverted real images than to real ones, by an exact binomial test at audit.generated_images.significance.",
	Breaches: audits.Judged("generated_inverted", func(v *Outcome, limit numbers.Probability) []string {
		return audits.AboveSignificantly("generated_inverted", "", v.Inverted, limit, v.Significance)
	}),
	FalseAlarms: audits.Alarms(func(f *Fields, _ *audits.Setting, limit numbers.Probability) []audits.FalseAlarm {
		return audits.SignificanceAlarms("generated_inverted", limit, f.GeneratedImages.Count, "images", f.GeneratedImages.Significance)
	}),
}.Limit()}

// Outcome describes the generated images of a model.
type Outcome struct {
	// Images is the number of generated images, compared with Real ones of the test part.
	Images        int     `json:"images" doc:"generated images"`
	Real          int     `json:"real" doc:"number of images of the test part that generated ones are compared with"`
	Intensity     float64 `json:"intensity" doc:"mean value of generated images, 0 to 255"`
	RealIntensity float64 `json:"real_intensity" doc:"mean value of real images, 0 to 255"`
	// Inverted is the share of generated images nearer in mean intensity to inverted real images than to real
	// ones; RealInverted is that of real images.
	Inverted     audits.Share `json:"inverted" doc:"of the share of generated images nearer in mean intensity to inverted real images than to real ones"`
	RealInverted audits.Share `json:"real_inverted" doc:"of the share of real images nearer in mean intensity to inverted real images than to real ones"`
	// InvertedByMeans is the share nearer to the inverted mean image of the real ones than to the mean
	// image, over all values.
	InvertedByMeans audits.Share `json:"inverted_by_means" doc:"of the share of generated images nearer to the inverted mean real image than to the mean real image"`
	Significance    float64      `json:"significance" doc:"probability of a false alarm of a gate on the images"`
	// Classifier is the prepared classifier's judgement. It may be nil.
	Classifier *Judgement `json:"classifier,omitempty" doc:"by the prepared classifier"`
	// Sheet is a PNG file of the first images.
	Sheet []byte `json:"sheet"`
}

// Judgement compares generated with real images by a classifier.
type Judgement struct {
	// Score is the classifier score of generated images, RealScore of real ones.
	Score     float64 `json:"score" doc:"classifier score of generated images"`
	RealScore float64 `json:"real_score" doc:"classifier score of real images"`
	// FrechetDistance is the Fréchet distance of their logits.
	FrechetDistance float64 `json:"frechet_distance" doc:"Fréchet distance between the logits of generated and real images"`
}

func (v *Outcome) Note(*audits.Cell) string { return "generated images: " + v.said() }

// alike is a share of the excess of the real images' classifier score over 1, the score of equal images. If the excess of
// generated images is below it, a note says that the generator has learned little (ours).
const alike = 0.1

func (v *Outcome) said() string {
	note := fmt.Sprintf("%d; nearer to inverted than to upright ones are %s by mean intensity, %s by the mean image, and of %d real ones %.2f%% by mean intensity; mean intensity %.1f, of real ones %.1f",
		v.Images, v.Inverted.Percent(), v.InvertedByMeans.Percent(), v.Real, 100*v.RealInverted.Share, v.Intensity, v.RealIntensity)
	if j := v.Classifier; j != nil {
		note += fmt.Sprintf("; classifier score %.3f, of real ones %.3f; Frechet distance %.3f", j.Score, j.RealScore, j.FrechetDistance)
		if j.Score-1 < alike*(j.RealScore-1) {
			note += "; the classifier hardly distinguishes the generated images: the generator has learned little or collapsed, so inverted images do not show a fault"
		}
	}
	return note
}
