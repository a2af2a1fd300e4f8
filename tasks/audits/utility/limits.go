package utility

import (
	"fmt"

	"coalmine/internal/extended"
	"coalmine/internal/fractions"
	"coalmine/tasks/audits"
)

// Limits of audit.fail_if: a model that has not learned shows nothing, and proves nothing.
type Limits struct {
	// AccuracyBelow is the least recall@1 on the test part, of a classifier the share of
	// correct labels, such as 10%. A cell below it fails.
	AccuracyBelow *fractions.Probability `json:"accuracy_below,omitempty" range:"(0,1]"`
	// PerplexityAbove is the largest perplexity on the test part. A cell above it fails.
	PerplexityAbove *float64 `json:"perplexity_above,omitempty" range:"[1,1e300]"`
}

// Check implements audits.LimitChecker.
func (l *Limits) Check(s *audits.Setting, fail audits.Fail) {
	if s.Reading.Label == "" {
		return
	}
	if l.AccuracyBelow != nil {
		fail([]string{"audit.fail_if.accuracy_below", "data.label"}, "is for words and classes, and a model of data.label: %s has no accuracy; remove it", s.Reading.Label)
	}
	if l.PerplexityAbove != nil {
		fail([]string{"audit.fail_if.perplexity_above", "data.label"}, "is for words and classes, and a model of data.label: %s has no perplexity; remove it", s.Reading.Label)
	}
}

// Breaches implements audits.Limits.
func (l *Limits) Breaches(c *audits.Cell) (breaches []string) {
	v, ok := audits.VerdictOf[*Verdict](c)
	if !ok || v.ofTexts() {
		return nil
	}
	switch {
	case l.AccuracyBelow == nil:
	case v.RecallUnknown != "":
		breaches = append(breaches, "accuracy, which accuracy_below limits, is not known: "+v.RecallUnknown)
	case v.RecallAt1 < l.AccuracyBelow.Float64():
		breaches = append(breaches, fmt.Sprintf("accuracy is %.4g%%, below the limit of %.4g%%", 100*v.RecallAt1, 100*l.AccuracyBelow.Float64()))
	}
	if l.PerplexityAbove != nil && float64(v.Perplexity) > *l.PerplexityAbove {
		breaches = append(breaches, fmt.Sprintf("perplexity is %s, above the limit of %.4g", extended.Decimal(v.Perplexity, 2), *l.PerplexityAbove))
	}
	return breaches
}
