package utility

import (
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// Fields of the audit block.
type Fields struct {
	// Utility measures recall@1 and perplexity on the test part; of a classifier, whose labels
	// are then the words; the mean absolute error of a regressor, and the mean average
	// precision of a tagger. A gan has none.
	Utility bool `json:"utility" default:"true"`
	// RecallAt5 adds recall@5 to the utility: the share of words, or of labels of images, that
	// are among the model's five first guesses.
	RecallAt5 bool `json:"recall_at_5,omitempty" default:"false" also:"top5 top_5 top5_accuracy" source:"Orekondy et al. 2018, table 2"`
}

// Asked implements audits.Fields.
func (f *Fields) Asked() bool { return f.Utility }

// Complete implements audits.Completer.
func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	f.Utility = given("audit.utility") || !s.Generator
}

// Check implements audits.Fields.
func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	if f.RecallAt5 && s.Program != nil {
		fail([]string{"audit.recall_at_5", "training.client_command"}, "counts five guesses of a model, of which a program of training.client_command tells one; set it to false for this cell")
	}
	if f.RecallAt5 && s.Reading.Label != "" {
		fail([]string{"audit.recall_at_5", "data.label"}, "counts guesses of words or of classes, and data.label is %s; set it to false for this cell", s.Reading.Label)
	}
	if f.RecallAt5 && s.External != nil && !s.External.OfImages() {
		fail([]string{"audit.recall_at_5", "model.kind"}, "counts the five first guesses, which models of texts that are not ours do not tell; set it to false for this cell")
	}
	if s.Generator {
		fail([]string{"audit.utility", "model.kind"}, "measures what a model predicts, and a gan predicts nothing; set it to false, or ask for audit.generated_images")
	}
	if !s.HasTest() {
		fail([]string{"audit.utility", "data.test.fraction"},
			"needs a test part, but data.test.fraction is 0; raise it, or set audit.utility to false")
	}
}

// CheckData implements audits.DataChecker.
func (f *Fields) CheckData(s *audits.Setting, d *audits.Data, fail audits.Fail) {
	if d.TestExamples == 0 {
		fail([]string{"data.test.fraction"}, "is %s, which leaves the test part of %s empty; raise it, or set audit.utility to false", s.TestFraction, d.Source)
	}
}

// shares is how many tasks the test part is split into. It shows in keys, not in
// results.
const shares = 4

// Compile implements audits.Fields.
func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	var parts []tasks.Input
	if s := b.Setting(); s.External != nil {
		return f.compileScored(b, round)
	}
	for share := range shares {
		part := b.Node(Part, fmt.Sprintf("utility %d of %d after %d", share+1, shares, round),
			PartParams{Data: datasets.Test, Share: share, Shares: shares, Top: f.RecallAt5, Program: b.Setting().Program, Words: b.Setting().Program != nil}, audits.ByProgram(b,
				tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}, tasks.Input{Name: DataInput, Key: b.Parts()})...)
		parts = append(parts, tasks.Input{Name: tasks.PartInput(share), Key: part})
	}
	return f.sum(b, round, parts...)
}

// States implements audits.Fields. A program is asked about some words alone.
func (f *Fields) States(s *audits.Setting) float64 {
	if s.External != nil && !s.External.OfImages() {
		return min(scoredWords, s.TestTokens)
	}
	return s.TestTokens
}
