package utility

import (
	"fmt"

	"coalmine/internal/numbers"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

type Fields struct {
	// Utility on the test part: recall@1 and perplexity, a regressor's mean absolute error, a tagger's
	// mean average precision. Not for a gan.
	Utility bool `json:"utility" default:"true"`
	// Adds recall@5, by the model's five first guesses.
	RecallAt5 bool `json:"recall_at_5,omitempty" default:"false" also:"top5 top_5 top5_accuracy" source:"Orekondy et al. 2018, table 2"`
}

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	f.Utility = given("audit.utility") || !s.Generator
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	fail.If(f.RecallAt5 && s.Program != nil, []string{"audit.recall_at_5", "training.client_command"}, "counts five guesses of a model, of which a program of training.client_command tells one; set it to false for this cell")
	fail.If(f.RecallAt5 && s.Reading.Label != "", []string{"audit.recall_at_5", "data.label"}, "counts guesses of words or of classes, and data.label is %s; set it to false for this cell", s.Reading.Label)
	fail.If(f.RecallAt5 && s.External != nil && !s.External.OfImages(), []string{"audit.recall_at_5", "model.kind"}, "counts the five first guesses, which models of texts that are not ours do not tell; set it to false for this cell")
	fail.If(s.Generator, []string{"audit.utility", "model.kind"}, "measures what a model predicts, and a gan predicts nothing; set it to false, or ask for audit.generated_images")
	audits.CheckTest(s, fail, "audit.utility", "set audit.utility to false")
}

func (f *Fields) CheckData(s *audits.Setting, d *audits.Data, fail audits.Fail) {
	audits.CheckTestData(s, d, fail, "set audit.utility to false")
}

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	s, inputs := b.Setting(), []tasks.Input{{Name: audits.ModelInput, Key: b.Model(round)}, {Name: DataInput, Key: b.Parts()}}
	var parts []tasks.Input
	if s.External != nil {
		scores := b.Node(Scored, fmt.Sprintf("utility by scores after %d", round), ScoredParams{Words: scoredWords, Model: *s.External}, inputs...)
		parts = []tasks.Input{{Name: tasks.PartInput(0), Key: scores}}
	} else {
		for share := range shares {
			p := PartParams{Data: datasets.Test, Share: share, Shares: shares, Top: f.RecallAt5, Program: s.Program, Words: s.Program != nil}
			part := b.Node(Part, fmt.Sprintf("utility %d of %d after %d", share+1, shares, round), p, audits.ByProgram(b, inputs...)...)
			parts = append(parts, tasks.Input{Name: tasks.PartInput(share), Key: part})
		}
	}
	return b.Node(Sum, fmt.Sprintf("utility after %d", round), SumParams{Shares: len(parts), Top: f.RecallAt5}, append(parts, baseline(b)...)...)
}

// States implements audits.Scorer. A program scores only some words.
func (f *Fields) States(s *audits.Setting) float64 {
	if s.External != nil && !s.External.OfImages() {
		return min(scoredWords, s.TestTokens)
	}
	return s.TestTokens
}

// limits fail a model that has not learned, with which audits prove nothing.
var limits = []audits.Limit{
	audits.LimitOf[numbers.Probability]{
		Name: "accuracy_below", Range: "(0,1]",
		Doc:   "Minimum recall@1 on the test part, of a classifier the share of correct labels.",
		Check: checkLabel[numbers.Probability]("accuracy", "accuracy_below"),
		Breaches: audits.Judged("accuracy", func(v *Outcome, limit numbers.Probability) []string {
			switch {
			case v.recall() == nil && v.RecallUnknown == "", v.Tokens == 0:
				return audits.NoValue("accuracy", "nothing is predicted that has one")
			case v.RecallUnknown != "":
				return []string{"accuracy, which accuracy_below limits, is not known: " + v.RecallUnknown}
			case v.RecallAt1 < limit.Float64():
				return []string{fmt.Sprintf("accuracy is %.4g%%, below the limit of %.4g%%", 100*v.RecallAt1, 100*limit.Float64())}
			}
			return nil
		}),
	}.Limit(),
	audits.LimitOf[float64]{
		Name: "perplexity_above", Range: "[1,1e300]",
		Doc:   "Largest perplexity on the test part.",
		Check: checkLabel[float64]("perplexity", "perplexity_above"),
		Breaches: audits.Judged("perplexity", func(v *Outcome, limit float64) []string {
			switch perplexity := v.perplexity(); {
			case perplexity == nil, v.Tokens == 0:
				return audits.NoValue("perplexity", "nothing is predicted that has one")
			case float64(*perplexity) > limit:
				return []string{fmt.Sprintf("perplexity is %s, above the limit of %.4g", numbers.Decimal(*perplexity, 2), limit)}
			}
			return nil
		}),
	}.Limit(),
}

// checkLabel reports a limit on a number that models of labels of texts lack.
func checkLabel[L any](number, limit string) func(*audits.Setting, L, audits.Fail) {
	return func(s *audits.Setting, _ L, fail audits.Fail) {
		fail.If(s.Reading.Label != "", []string{"audit.fail_if." + limit, "data.label"}, "is for words and classes, and a model of data.label: %s has no %s; remove it", s.Reading.Label, number)
	}
}
