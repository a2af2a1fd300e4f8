package utility

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"coalmine/internal/extended"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Audit is the utility of a language model.
var Audit = audits.Description{
	Name:      "utility",
	Legend:    "Accuracy is recall@1, of a classifier the share of labels predicted correctly; top-5 is recall@5.",
	Models:    audits.Anything,
	New:       func() audits.Fields { return new(Fields) },
	Limits:    func() audits.Limits { return new(Limits) },
	Kinds:     []tasks.Kind{Part, Frequencies, Sum, Scored},
	ByScores:  true,
	ByProgram: true,
	Pairs:     audits.EverySecret,
	Verdict:   func() audits.Verdict { return new(Verdict) },
	Utility:   func(v audits.Verdict) (float64, bool) { return v.(*Verdict).utility() },
	Columns: []audits.Column{
		{Header: "accuracy %", Leading: true, Measure: audits.OldMeasure{Name: "recall_at_1", Percent: true, Digits: 1}},
		{Header: "top-5 %", Leading: true, Optional: true, Measure: audits.OldMeasure{Name: "recall_at_5", Percent: true, Digits: 1}},
		{Header: "perplexity", Leading: true, Measure: audits.OldMeasure{Name: "perplexity", Digits: 1}},
		{Header: "MAE", Leading: true, Optional: true, Measure: audits.OldMeasure{Name: "mean_absolute_error", Digits: 3}},
		{Header: "mean AP", Leading: true, Optional: true, Measure: audits.OldMeasure{Name: "mean_average_precision", Digits: 3}},
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
	// MeanAveragePrecision of a tagger's labels, in (0, 1], each over Tokens texts. There is
	// then no recall and no perplexity.
	MeanAbsoluteError    *float64 `json:"mean_absolute_error,omitempty"`
	MeanAveragePrecision *float64 `json:"mean_average_precision,omitempty"`
	// AllTargets is the same over every target, <unk> and <end> included.
	AllTargets *Verdict `json:"all_targets,omitempty"`
	// Baseline is the utility of the frequencies of the training part, without a model; nil in
	// results from before it was measured. AtBaseline says that the model's is no better.
	Baseline   *Verdict `json:"baseline,omitempty"`
	AtBaseline bool     `json:"at_baseline,omitempty"`
}

// MarshalJSON leaves out a recall that is not known, and the recall and the perplexity of labels of
// texts, which have none.
func (v Verdict) MarshalJSON() ([]byte, error) {
	type plain Verdict
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

// Note implements audits.Noter: it names a model that diverged, one whose recall is not known,
// and one that has hardly learned.
func (v *Verdict) Note(*audits.Cell) string {
	var notes []string
	if v.RecallUnknown != "" {
		notes = append(notes, "no accuracy: "+v.RecallUnknown)
	}
	if v.Infinite {
		notes = append(notes, fmt.Sprintf("the model diverged: its perplexity is beyond the range of numbers, with a mean loss of %.4g nats a target", v.MeanLoss))
	}
	if v.AtBaseline {
		notes = append(notes, fmt.Sprintf("%s utility is at the level of %s: the model has learned little or nothing, so audits that find nothing do not show that the training is safe",
			audits.Mark, v.baselineText()))
	}
	return strings.Join(notes, "; ")
}

// Marked implements audits.Marker.
func (v *Verdict) Marked() bool { return v.AtBaseline }

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
	if b := v.Baseline; b != nil {
		base := b.Row().(row)
		r.BaselineRecallAt1, r.BaselinePerplexity = base.RecallAt1, base.Perplexity
		r.BaselineError, r.BaselinePrecision = base.MeanAbsoluteError, base.MeanAveragePrecision
		r.AtBaseline = &v.AtBaseline
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

	BaselineRecallAt1  *float64 `parquet:"baseline_recall_at_1"`
	BaselinePerplexity *float64 `parquet:"baseline_perplexity"`
	BaselineError      *float64 `parquet:"baseline_mean_absolute_error"`
	BaselinePrecision  *float64 `parquet:"baseline_mean_average_precision"`
	AtBaseline         *bool    `parquet:"at_baseline"`
}
