package accuracyperuser

import (
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets"
)

type Fields struct {
	// Percentiles and a histogram of the accuracy by user of the last model, and of prepare.classifier
	// before selection.
	AccuracyPerUser *Block `json:"accuracy_per_user,omitempty" source:"Augenstein et al. 2020, figure 5 and table 10"`
}

type Block struct {
	// Part to predict; the paper and the prepared classifier use train.
	Part Part `json:"part" default:"train"`
}

const path = "audit.accuracy_per_user"

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	fail.If(s.Generator && !s.Prepared, []string{path, "model.kind"}, "measures what a model predicts, and a gan predicts nothing; expected prepare.classifier beside it, another model.kind, or no such audit")
	fail.If(s.External != nil && !s.External.OfImages(), []string{path, "model.kind"}, "counts words that a model predicts correctly, and models of texts that are not ours score whole texts; expected another model.kind, or no such audit")
	fail.If(s.Reading.Label != "", []string{path, "data.label"}, "counts what is predicted correctly, and data.label is %s; set it to null for this cell", s.Reading.Label)
	fail.If(f.AccuracyPerUser.Part == Test && !s.HasTest(), []string{path + ".part", "data.test.fraction"}, "is test, but data.test.fraction is 0; raise it, or take the part train")
}

func (f *Fields) CheckData(s *audits.Setting, d *audits.Data, fail audits.Fail) {
	if f.AccuracyPerUser.Part == Test {
		audits.CheckTestData(s, d, fail, "take the part train of "+path)
	}
}

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	p := SummaryParams{Part: f.AccuracyPerUser.Part}
	var inputs []tasks.Input
	if !b.Setting().Generator {
		inputs = f.parts(b, round)
		p.Shares = len(inputs)
	}
	if here, clean, ok := b.Predicted(); ok {
		p.Prepared = true
		inputs = append(inputs, tasks.Input{Name: PredictedInput, Key: here}, tasks.Input{Name: CleanInput, Key: clean})
	}
	return b.Node(Summary, fmt.Sprintf("accuracy per user after %d", round), p, inputs...)
}

func (f *Fields) parts(b audits.Builder, round int) []tasks.Input {
	part := f.AccuracyPerUser.Part
	inputs := []tasks.Input{{Name: audits.ModelInput, Key: b.Model(round)}}
	if part == Test {
		inputs = append(inputs, tasks.Input{Name: datasets.PartsInput, Key: b.Parts()})
	} else {
		inputs = append(inputs, tasks.Input{Name: datasets.PopulationInput, Key: b.Population()}, tasks.Input{Name: datasets.ShardsInput, Key: b.Shards()})
	}
	return utility.UserShares(b, Kind, Scored, fmt.Sprintf("accuracy of users %%d of %%d after %d", round), tasks.PartInput,
		func(share utility.UserShare) any { return Params{part, share} }, inputs)
}

func (f *Fields) States(s *audits.Setting) float64 {
	if f.AccuracyPerUser.Part == Test {
		return s.TestTokens
	}
	return s.TrainTokens()
}
