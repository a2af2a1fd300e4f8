package utility

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/numbers"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name:      "utility",
	Models:    audits.Anything,
	Limits:    limits,
	Kinds:     []tasks.Kind{Part, Frequencies, Sum, Scored},
	ByScores:  true,
	ByProgram: true,
	Pairs:     audits.EverySecret,
	Marked:    audits.From(func(v *Outcome) bool { return v.AtBaseline }),
	Utility:   func(v audits.Outcome) (float64, bool) { return v.(*Outcome).utility() },
	Measures: slices.Concat([]audits.Measure{
		{Name: "recall_at_1", Doc: "share of ordinary words that are the first guess (recall@1), of a classifier the share of labels", Of: audits.Of((*Outcome).recall), Header: "accuracy %", Leading: true, Optional: true, Scale: audits.Percent, Digits: 1, Better: audits.Higher},
		{Name: "perplexity", Of: audits.Of((*Outcome).perplexity), Header: "perplexity", Leading: true, Optional: true, Place: 2, Scale: audits.Plain, Digits: 1, Min: 1, Better: audits.Lower, Doc: "exponential of the mean loss in nats of the predictions of ordinary words or labels"},
		{Name: "test_tokens", Of: audits.Of(func(v *Outcome) int64 { return v.Tokens }), Doc: "test words, or examples with labels, that the utility is of"},
		{Name: "mean_absolute_error", Doc: "mean absolute error of a regressor's scores, in points of their scale", Of: audits.Of(func(v *Outcome) *float64 { return v.MeanAbsoluteError }), Header: "MAE", Leading: true, Optional: true, Place: 3, Scale: audits.Plain, Digits: 3, Better: audits.Lower},
		{Name: "mean_average_precision", Doc: "mean average precision of a tagger's labels, from 0 to 1", Of: audits.Of(func(v *Outcome) *float64 { return v.MeanAveragePrecision }), Header: "mean AP", Leading: true, Optional: true, Place: 4, Scale: audits.Plain, Digits: 3, Max: 1, Better: audits.Higher},
		{Name: "recall_at_5", Doc: "share of words or labels among the five first guesses (recall@5)", Of: audits.Of(func(v *Outcome) *float64 { return v.RecallAt5 }), Header: "top-5 %", Leading: true, Optional: true, Place: 1, Scale: audits.Percent, Digits: 1, Better: audits.Higher},
	}, audits.Within(func(v *Outcome) *Outcome { return v.Baseline },
		audits.Measure{Name: "baseline_recall_at_1", Of: audits.Of((*Outcome).recall), Doc: "accuracy of always guessing the most frequent word or label"},
		audits.Measure{Name: "baseline_perplexity", Of: audits.Of((*Outcome).perplexity), Doc: "perplexity of word frequencies"},
		audits.Measure{Name: "baseline_mean_absolute_error", Doc: "mean absolute error of the median score", Of: audits.Of(func(v *Outcome) *float64 { return v.MeanAbsoluteError })},
		audits.Measure{Name: "baseline_mean_average_precision", Doc: "mean average precision of tags in any order", Of: audits.Of(func(v *Outcome) *float64 { return v.MeanAveragePrecision })},
	), []audits.Measure{
		{Name: "at_baseline", Of: audits.Of(func(v *Outcome) *bool { return audits.When(v.Baseline != nil, v.AtBaseline) }), Doc: "whether the model is no better than word or class frequencies: nothing memorized then does not show that its training is safe"},
	}),
})

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
	fail.If(f.RecallAt5 && s.Reading.Label != "", []string{"audit.recall_at_5", "data.label"}, "counts guesses of words or of classes, but data.label is %s; set it to false for this cell", s.Reading.Label)
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
			p := PartParams{Data: population.Test, Share: share, Shares: shares, Top: f.RecallAt5, Program: s.Program, Words: s.Program != nil}
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

type Outcome struct {
	// RecallAt1 is the share of ordinary target words that were the model's first guess. Perplexity is exp of
	// their mean loss.
	RecallAt1  float64       `json:"recall_at_1"`
	Perplexity numbers.Float `json:"perplexity"`
	// RecallUnknown is the reason why there is no recall, or "".
	RecallUnknown string `json:"recall_unknown,omitempty"`
	// Infinite reports whether the perplexity is beyond float64, and null: the model diverged. MeanLoss, in
	// nats, replaces it.
	Infinite bool    `json:"infinite,omitempty"`
	MeanLoss float64 `json:"mean_loss,omitempty" doc:"mean loss in nats, if the perplexity is beyond float64"`
	// RecallAt5 is the share among the five first guesses; nil if not requested.
	RecallAt5 *float64 `json:"recall_at_5,omitempty"`
	Tokens    int64    `json:"tokens" doc:"number of ordinary target words of the test part; of labelled texts their number"`
	// MeanAbsoluteError is for a regressor's scores, in points of their scale, and MeanAveragePrecision for a
	// tagger's labels, in (0, 1], over Tokens texts, without recall and perplexity. Otherwise Tokens is the
	// number of ordinary target words.
	MeanAbsoluteError    *float64 `json:"mean_absolute_error,omitempty"`
	MeanAveragePrecision *float64 `json:"mean_average_precision,omitempty"`
	// AllTargets is the same over all targets, with <unk> and <end>.
	AllTargets *Outcome `json:"all_targets,omitempty" doc:"over all targets, with <unk> and <end>"`
	// Baseline is the utility of the training part's frequencies; nil in early results. AtBaseline reports
	// that a measure of the model's utility is no better.
	Baseline   *Outcome `json:"baseline,omitempty" doc:"of a model that knows only the frequencies of the training part"`
	AtBaseline bool     `json:"at_baseline,omitempty"`
}

// MarshalJSON omits an unknown recall, and recall and perplexity for labels of texts.
func (v Outcome) MarshalJSON() ([]byte, error) {
	type plain Outcome
	switch {
	case v.ofTexts():
		return json.Marshal(struct {
			plain
			RecallAt1  *float64 `json:"recall_at_1,omitempty"`
			Perplexity *float64 `json:"perplexity,omitempty"`
		}{plain: plain(v)})
	case v.RecallUnknown != "":
		return json.Marshal(struct {
			plain
			RecallAt1 *float64 `json:"recall_at_1,omitempty"`
		}{plain: plain(v)})
	}
	return json.Marshal(plain(v))
}

// utility returns the recall, a tagger's mean average precision, or the inverse of a regressor's error. It returns
// false for a model that is never right, or never wrong.
func (v *Outcome) utility() (value float64, ok bool) {
	switch {
	case v.MeanAbsoluteError != nil:
		value = 1 / *v.MeanAbsoluteError
	case v.MeanAveragePrecision != nil:
		value = *v.MeanAveragePrecision
	default:
		value = v.RecallAt1
	}
	return value, value > 0 && !math.IsInf(value, 1)
}

// recall returns nil if there is no recall or it is unknown.
func (v *Outcome) recall() *float64 {
	return audits.When(!v.ofTexts() && v.RecallUnknown == "", v.RecallAt1)
}

func (v *Outcome) perplexity() *numbers.Float {
	return audits.When(!v.ofTexts(), v.Perplexity)
}

// Note describes a model whose utility is at the baseline, that has no known recall, or that diverged. The mark
// comes first: it makes the note a warning.
func (v *Outcome) Note(*audits.Cell) string {
	var notes []string
	if v.AtBaseline {
		notes = append(notes, fmt.Sprintf("%s %s, so audits that find nothing do not show that the training is safe", audits.Mark, v.baselineNote()))
	}
	if v.RecallUnknown != "" {
		notes = append(notes, "no accuracy: "+v.RecallUnknown)
	}
	if v.Infinite {
		notes = append(notes, fmt.Sprintf("the model diverged: its perplexity is beyond the range of numbers, with a mean loss of %.4g nats a target", v.MeanLoss))
	}
	return strings.Join(notes, "; ")
}

// ofTexts reports whether labels of texts are predicted, not words or classes.
func (v *Outcome) ofTexts() bool { return v.MeanAbsoluteError != nil || v.MeanAveragePrecision != nil }
