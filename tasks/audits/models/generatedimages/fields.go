package generatedimages

import (
	"fmt"

	"coalmine/internal/numbers"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

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
