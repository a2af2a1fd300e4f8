package utility

import (
	"fmt"

	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Audit is the utility of a language model.
var Audit = audits.Description{
	Name:     "utility",
	Legend:   "Accuracy is recall@1, of a classifier the share of labels predicted correctly.",
	Measures: audits.Anything,
	New:      func() audits.Fields { return new(Fields) },
	Kinds:    []tasks.Kind{Part, Sum},
	Pairs:    audits.EverySecret,
	Verdict:  func() audits.Verdict { return new(Verdict) },
	Columns:  []audits.Column{{Header: "accuracy %", Leading: true}, {Header: "perplexity", Leading: true}},
}

// Verdict is the outcome: the metrics of evaluation/utility.
type Verdict struct {
	// RecallAt1 is the share of ordinary target words that were the model's
	// first guess over its full output; Perplexity is exp of their mean loss.
	RecallAt1  float64 `json:"recall_at_1"`
	Perplexity float64 `json:"perplexity"`
	// Tokens counts the ordinary target words.
	Tokens int64 `json:"tokens"`
	// AllTargets is the same over every target, <unk> and <end> included.
	AllTargets *Verdict `json:"all_targets,omitempty"`
}

// Texts implements audits.Verdict.
func (v *Verdict) Texts() []string {
	return []string{fmt.Sprintf("%.1f", 100*v.RecallAt1), fmt.Sprintf("%.1f", v.Perplexity)}
}

// Row implements audits.Verdict.
func (v *Verdict) Row() any { return row{&v.RecallAt1, &v.Perplexity, &v.Tokens} }

type row struct {
	RecallAt1  *float64 `parquet:"recall_at_1"`
	Perplexity *float64 `parquet:"perplexity"`
	TestTokens *int64   `parquet:"test_tokens"`
}
