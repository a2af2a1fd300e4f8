package utility

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/numbers"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name:      "utility",
	Legend:    "Accuracy is recall@1, of a classifier the share of labels predicted correctly; top-5 is recall@5. Perplexity is e to the mean loss of a prediction in nats.",
	Models:    audits.Anything,
	Limits:    limits,
	Kinds:     []tasks.Kind{Part, Frequencies, Sum, Scored},
	ByScores:  true,
	ByProgram: true,
	Pairs:     audits.EverySecret,
	Marked:    audits.From(func(v *Outcome) bool { return v.AtBaseline }),
	Utility:   func(v audits.Outcome) (float64, bool) { return v.(*Outcome).utility() },
	Measures: slices.Concat([]audits.Measure{
		{Name: "recall_at_1", Of: audits.Of((*Outcome).recall), Header: "accuracy %", Leading: true, Scale: audits.Percent, Digits: 1},
		{Name: "perplexity", Of: audits.Of((*Outcome).perplexity), Header: "perplexity", Leading: true, Place: 2, Scale: audits.Plain, Digits: 1, Min: 1},
		{Name: "test_tokens", Of: audits.Of(func(v *Outcome) int64 { return v.Tokens })},
		{Name: "mean_absolute_error", Of: audits.Of(func(v *Outcome) *float64 { return v.MeanAbsoluteError }), Header: "MAE", Leading: true, Optional: true, Place: 3, Scale: audits.Plain, Digits: 3},
		{Name: "mean_average_precision", Of: audits.Of(func(v *Outcome) *float64 { return v.MeanAveragePrecision }), Header: "mean AP", Leading: true, Optional: true, Place: 4, Scale: audits.Plain, Digits: 3, Max: 1},
		{Name: "recall_at_5", Of: audits.Of(func(v *Outcome) *float64 { return v.RecallAt5 }), Header: "top-5 %", Leading: true, Optional: true, Place: 1, Scale: audits.Percent, Digits: 1},
	}, audits.Within(func(v *Outcome) *Outcome { return v.Baseline },
		audits.Measure{Name: "baseline_recall_at_1", Of: audits.Of((*Outcome).recall)},
		audits.Measure{Name: "baseline_perplexity", Of: audits.Of((*Outcome).perplexity)},
	), audits.Within(func(v *Outcome) *Outcome { return v.Baseline },
		audits.Columns[Outcome]("baseline_", "mean_absolute_error", "mean_average_precision")...,
	), []audits.Measure{
		{Name: "at_baseline", Of: audits.Of(func(v *Outcome) *bool { return audits.When(v.Baseline != nil, v.AtBaseline) })},
	}),
})

type Outcome struct {
	// RecallAt1 is the share of ordinary target words that were the model's first guess. Perplexity is exp of
	// their mean loss.
	RecallAt1  float64       `json:"recall_at_1"`
	Perplexity numbers.Float `json:"perplexity"`
	// RecallUnknown is the reason why there is no recall, or "".
	RecallUnknown string `json:"recall_unknown,omitempty"`
	// Infinite: the perplexity is beyond float64, and null; the model diverged. MeanLoss, in nats, replaces
	// it.
	Infinite bool    `json:"infinite,omitempty"`
	MeanLoss float64 `json:"mean_loss,omitempty"`
	// RecallAt5 is the share among the five first guesses; nil if not requested.
	RecallAt5 *float64 `json:"recall_at_5,omitempty"`
	Tokens    int64    `json:"tokens"`
	// MeanAbsoluteError is for a regressor's scores, in points of their scale, and MeanAveragePrecision for a
	// tagger's labels, in (0, 1], over Tokens texts, without recall and perplexity. Otherwise Tokens is the
	// number of ordinary target words.
	MeanAbsoluteError    *float64 `json:"mean_absolute_error,omitempty"`
	MeanAveragePrecision *float64 `json:"mean_average_precision,omitempty"`
	// AllTargets is the same over all targets, with <unk> and <end>.
	AllTargets *Outcome `json:"all_targets,omitempty"`
	// Baseline is the utility of the training part's frequencies; nil in early results. AtBaseline reports
	// that a measure of the model's utility is no better.
	Baseline   *Outcome `json:"baseline,omitempty"`
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

// utility is the recall, a tagger's mean average precision, or the inverse of a regressor's error. It is
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

// recall is nil if there is no recall or it is unknown.
func (v *Outcome) recall() *float64 {
	return audits.When(!v.ofTexts() && v.RecallUnknown == "", v.RecallAt1)
}

func (v *Outcome) perplexity() *numbers.Float {
	return audits.When(!v.ofTexts(), v.Perplexity)
}

// Note describes a model that diverged, that has no known recall, or that has hardly learned.
func (v *Outcome) Note(*audits.Cell) string {
	var notes []string
	if v.RecallUnknown != "" {
		notes = append(notes, "no accuracy: "+v.RecallUnknown)
	}
	if v.Infinite {
		notes = append(notes, fmt.Sprintf("the model diverged: its perplexity is beyond the range of numbers, with a mean loss of %.4g nats a target", v.MeanLoss))
	}
	if v.AtBaseline {
		notes = append(notes, fmt.Sprintf("%s %s, so audits that find nothing do not show that the training is safe", audits.Mark, v.baselineNote()))
	}
	return strings.Join(notes, "; ")
}

// ofTexts reports whether labels of texts are predicted, not words or classes.
func (v *Outcome) ofTexts() bool { return v.MeanAbsoluteError != nil || v.MeanAveragePrecision != nil }
