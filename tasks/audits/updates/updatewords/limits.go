package updatewords

import "coalmine/tasks/audits"

var limits = []audits.Limit{audits.LimitOf[float64]{
	Name:  "update_words",
	Doc:   "update_words limits how many times what the words' frequency alone gives the average precision is with which updates name the words of their devices.",
	Range: "[1,1e9]", Unit: "times what frequency gives",
	Breaches: audits.Judged(func(v *Outcome, limit float64) []string {
		if v.BaselineAP <= 0 {
			return nil
		}
		return audits.Above("the AP of words read off updates, over that by their frequency alone,", v.AP/v.BaselineAP, limit)
	}),
}.Limit()}
