package baselines

import (
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets"
)

// Fields of the audit block.
type Fields struct {
	// Baselines measures on the test part what can be predicted without a model, to hold the
	// utility against: by chance, by always giving the same answer and, of images and of
	// labels of texts, by the 10 nearest neighbours in the training part. It depends on the
	// data alone, and cells share it.
	Baselines bool `json:"baselines,omitempty" default:"false" also:"baseline chance knn" source:"Orekondy et al. 2018, table 2"`
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	if s.Generator {
		fail([]string{"audit.baselines", "model.kind"}, "measures what a model could be held against, and a gan predicts nothing; set it to false for this cell")
	}
	audits.CheckTest(s, fail, "audit.baselines", "set audit.baselines to false")
}

func (f *Fields) CheckData(s *audits.Setting, d *audits.Data, fail audits.Fail) {
	audits.CheckTestData(s, d, fail, "set audit.baselines to false")
}

func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	return b.Node(Kind, "baselines", paramsOf(b.Setting()), tasks.Input{Name: utility.DataInput, Key: b.Parts()})
}

func paramsOf(s *audits.Setting) Params {
	p := Params{utility.ReadingOf(s), s.Ordinary}
	switch {
	case p.Label == datasets.TagsLabel:
		p.Choices = len(s.Reading.TagList())
	case p.Label != "":
		p.Choices = len(s.Reading.LabelWords())
	case p.Level.Scheme().Images:
		p.Choices = s.Reading.Image.Classes
	}
	return p
}
