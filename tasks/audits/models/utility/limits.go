package utility

import (
	"fmt"

	"coalmine/internal/extended"
	"coalmine/internal/fractions"
	"coalmine/tasks/audits"
)

// limits fail a model that has not learned, which shows nothing, and proves nothing.
var limits = []audits.Limit{
	audits.LimitOf[fractions.Probability]{
		Name: "accuracy_below", Range: "(0,1]",
		Doc: "accuracy_below is the least recall@1 on the test part, of a classifier the share of correct labels, such as 10%. A cell below it fails.",
		Check: func(s *audits.Setting, _ fractions.Probability, fail audits.Fail) {
			checkLabel(s, "accuracy", "accuracy_below", fail)
		},
		Breaches: audits.Judged(func(v *Outcome, limit fractions.Probability) []string {
			switch {
			case v.ofTexts():
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
		Doc: "perplexity_above is the largest perplexity on the test part. A cell above it fails.",
		Check: func(s *audits.Setting, _ float64, fail audits.Fail) {
			checkLabel(s, "perplexity", "perplexity_above", fail)
		},
		Breaches: audits.Judged(func(v *Outcome, limit float64) []string {
			if !v.ofTexts() && float64(v.Perplexity) > limit {
				return []string{fmt.Sprintf("perplexity is %s, above the limit of %.4g", extended.Decimal(v.Perplexity, 2), limit)}
			}
			return nil
		}),
	}.Limit(),
}

// checkLabel reports a limit on what models that predict labels of texts do not have.
func checkLabel(s *audits.Setting, what, limit string, fail audits.Fail) {
	if s.Reading.Label != "" {
		fail([]string{"audit.fail_if." + limit, "data.label"}, "is for words and classes, and a model of data.label: %s has no %s; remove it", s.Reading.Label, what)
	}
}
