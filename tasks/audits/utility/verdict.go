package utility

import (
	"encoding/json"
	"fmt"
	"math"

	"coalmine/internal/extended"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Audit is the utility of a language model.
var Audit = audits.Description{
	Name:      "utility",
	Legend:    "Accuracy is recall@1, of a classifier the share of labels predicted correctly; top-5 is recall@5.",
	Measures:  audits.Anything,
	New:       func() audits.Fields { return new(Fields) },
	Kinds:     []tasks.Kind{Part, Sum, Scored},
	ByScores:  true,
	ByProgram: true,
	Pairs:     audits.EverySecret,
	Verdict:   func() audits.Verdict { return new(Verdict) },
	Utility:   func(v audits.Verdict) (float64, bool) { return v.(*Verdict).utility() },
	Columns: []audits.Column{
		{Header: "accuracy %", Leading: true, Measure: audits.Measure{Name: "recall_at_1", Percent: true, Digits: 1}},
		{Header: "top-5 %", Leading: true, Optional: true, Measure: audits.Measure{Name: "recall_at_5", Percent: true, Digits: 1}},
		{Header: "perplexity", Leading: true, Measure: audits.Measure{Name: "perplexity", Digits: 1}},
		{Header: "MAE", Leading: true, Optional: true, Measure: audits.Measure{Name: "mean_absolute_error", Digits: 3}},
		{Header: "mean AP", Leading: true, Optional: true, Measure: audits.Measure{Name: "mean_average_precision", Digits: 3}},
	},
}

// Verdict is the outcome: the metrics of evaluation/utility.
type Verdict struct {
	// RecallAt1 is the share of ordinary target words that were the model's
	// first guess over its full output; Perplexity is exp of their mean loss.
	RecallAt1  float64        `json:"recall_at_1"`
	Perplexity extended.Float `json:"perplexity"`
	// RecallUnknown says why there is no recall; "" where there is one.
	RecallUnknown string `json:"recall_unknown,omitempty"`
	// Infinite says that the perplexity lies beyond the range of float64, and is null: the
	// model diverged. MeanLoss, in nats, is then given in its place.
	Infinite bool    `json:"infinite,omitempty"`
	MeanLoss float64 `json:"mean_loss,omitempty"`
	// RecallAt5 is the share that were among the five first guesses; nil where it was not
	// asked for.
	RecallAt5 *float64 `json:"recall_at_5,omitempty"`
	// Tokens counts the ordinary target words.
	Tokens int64 `json:"tokens"`
	// MeanAbsoluteError of a regressor's scores, in points of their scale, and
	// MeanAveragePrecision of a tagger's labels, in (0, 1], each over Tokens texts. The
	// recall and the perplexity are then 0.
	MeanAbsoluteError    *float64 `json:"mean_absolute_error,omitempty"`
	MeanAveragePrecision *float64 `json:"mean_average_precision,omitempty"`
	// AllTargets is the same over every target, <unk> and <end> included.
	AllTargets *Verdict `json:"all_targets,omitempty"`
}

// MarshalJSON leaves out a recall that is not known.
func (v Verdict) MarshalJSON() ([]byte, error) {
	type plain Verdict
	if v.RecallUnknown == "" {
		return json.Marshal(plain(v))
	}
	return json.Marshal(struct {
		plain
		RecallAt1 *float64 `json:"recall_at_1,omitempty"`
	}{plain: plain(v)})
}

// utility is the recall, the mean average precision of a tagger, or the inverse of a regressor's
// error; false of a model that is never right, or never wrong.
func (v *Verdict) utility() (value float64, ok bool) {
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

// Texts implements audits.Verdict.
func (v *Verdict) Texts() []string {
	texts := []string{"", "", "", fixed(v.MeanAbsoluteError), fixed(v.MeanAveragePrecision)}
	if v.RecallAt5 != nil {
		texts[1] = fmt.Sprintf("%.1f", 100**v.RecallAt5)
	}
	if !v.ofTexts() {
		texts[0], texts[2] = fmt.Sprintf("%.1f", 100*v.RecallAt1), extended.Decimal(v.Perplexity, 1)
	}
	if v.RecallUnknown != "" {
		texts[0] = ""
	}
	return texts
}

// Note implements audits.Noter: it names a model that diverged, and one whose recall is not known.
func (v *Verdict) Note(*audits.Cell) string {
	switch {
	case v.RecallUnknown != "":
		return "no accuracy: " + v.RecallUnknown
	case !v.Infinite:
		return ""
	}
	return fmt.Sprintf("the model diverged: its perplexity is beyond the range of numbers, with a mean loss of %.4g nats a target", v.MeanLoss)
}

// ofTexts reports whether labels of texts are predicted, not words or classes.
func (v *Verdict) ofTexts() bool { return v.MeanAbsoluteError != nil || v.MeanAveragePrecision != nil }

// fixed is a number with three decimals, nothing without one.
func fixed(x *float64) string {
	if x == nil {
		return ""
	}
	return extended.Decimal(*x, 3)
}

// Row implements audits.Verdict.
func (v *Verdict) Row() any {
	r := row{TestTokens: &v.Tokens, MeanAbsoluteError: v.MeanAbsoluteError, MeanAveragePrecision: v.MeanAveragePrecision, RecallAt5: v.RecallAt5}
	if !v.ofTexts() {
		r.RecallAt1, r.Perplexity = &v.RecallAt1, new(float64(v.Perplexity))
	}
	if v.RecallUnknown != "" {
		r.RecallAt1 = nil
	}
	return r
}

type row struct {
	RecallAt1  *float64 `parquet:"recall_at_1"`
	Perplexity *float64 `parquet:"perplexity"`
	TestTokens *int64   `parquet:"test_tokens"`

	MeanAbsoluteError    *float64 `parquet:"mean_absolute_error"`
	MeanAveragePrecision *float64 `parquet:"mean_average_precision"`
	RecallAt5            *float64 `parquet:"recall_at_5"`
}
