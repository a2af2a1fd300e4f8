package accuracyperuser

import (
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Fields of the audit block.
type Fields struct {
	// AccuracyPerUser says for how many users the last model is how accurate: percentiles and
	// a histogram of the users' accuracies, a user's being the share of labels predicted
	// correctly or, of texts, of words. The same of prepare.classifier, where there is one,
	// before anything is selected. Absent: not done.
	AccuracyPerUser *Block `json:"accuracy_per_user,omitempty" source:"Augenstein et al. 2020, figure 5 and table 10"`
}

// Block of the audit's fields.
type Block struct {
	// Part of each user's data that the model predicts: what it is trained on, as in the
	// paper, or the test part. The prepared classifier predicts the training part.
	Part Part `json:"part" default:"train"`
}

const path = "audit.accuracy_per_user"

// Asked implements audits.Fields.
func (f *Fields) Asked() bool { return f.AccuracyPerUser != nil }

// Check implements audits.Fields.
func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	if s.Generator && !s.Prepared {
		fail([]string{path, "model.kind"}, "measures what a model predicts, and a gan predicts nothing; expected prepare.classifier beside it, another model.kind, or no such audit")
	}
	if s.External != nil && !s.External.OfImages() {
		fail([]string{path, "model.kind"}, "counts words that a model predicts correctly, and models of texts that are not ours score whole texts; expected another model.kind, or no such audit")
	}
	if s.Reading.Label != "" {
		fail([]string{path, "data.label"}, "counts what is predicted correctly, and data.label is %s; set it to null for this cell", s.Reading.Label)
	}
	if f.AccuracyPerUser.Part == Test && !s.HasTest() {
		fail([]string{path + ".part", "data.test.fraction"}, "is test, but data.test.fraction is 0; raise it, or take the part train")
	}
}

// CheckData implements audits.DataChecker.
func (f *Fields) CheckData(s *audits.Setting, d *audits.Data, fail audits.Fail) {
	if f.AccuracyPerUser.Part == Test && d.TestExamples == 0 {
		fail([]string{"data.test.fraction"}, "is %s, which leaves the test part of %s empty; raise it, or take the part train of %s", s.TestFraction, d.Source, path)
	}
}

// shares is how many tasks the users are split into. It shows in keys, not in results.
const shares = 4

// Compile implements audits.Fields.
func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	p := SummaryParams{Part: f.AccuracyPerUser.Part}
	var inputs []tasks.Input
	if !b.Setting().Generator {
		p.Shares = shares
		inputs = f.parts(b, round)
	}
	if here, clean, ok := b.Predicted(); ok {
		p.Prepared = true
		inputs = append(inputs, tasks.Input{Name: PredictedInput, Key: here}, tasks.Input{Name: CleanInput, Key: clean})
	}
	return b.Node(Summary, fmt.Sprintf("accuracy per user after %d", round), p, inputs...)
}

// parts are the shares of the users.
func (f *Fields) parts(b audits.Builder, round int) []tasks.Input {
	part := f.AccuracyPerUser.Part
	of := []tasks.Input{{Name: PopulationInput, Key: b.Population()}, {Name: ShardsInput, Key: b.Shards()}}
	if part == Test {
		of = []tasks.Input{{Name: PartsInput, Key: b.Parts()}}
	}
	inputs := append([]tasks.Input{{Name: audits.ModelInput, Key: b.Model(round)}}, of...)
	var all []tasks.Input
	for share := range shares {
		label := fmt.Sprintf("accuracy of users %d of %d after %d", share+1, shares, round)
		all = append(all, tasks.Input{Name: tasks.PartInput(share), Key: node(b, label, Params{Part: part, Share: share, Shares: shares}, inputs)})
	}
	return all
}

// node is one share of the users, whoever predicts.
func node(b audits.Builder, label string, p Params, inputs []tasks.Input) storage.Key {
	s := b.Setting()
	if s.External != nil {
		return b.Node(Scored, label, ScoredParams{Params: p, Model: *s.External}, inputs...)
	}
	p.Program = s.Program
	return b.Node(Kind, label, p, audits.ByProgram(b, inputs...)...)
}

// States implements audits.Fields.
func (f *Fields) States(s *audits.Setting) float64 {
	if f.AccuracyPerUser.Part == Test {
		return s.TestTokens
	}
	return s.TrainTokens()
}
