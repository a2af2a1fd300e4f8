package updatewords

import "coalmine/tasks/audits"

// Limits of audit.fail_if.
type Limits struct {
	// UpdateWords limits how many times what the words' frequency alone gives the average
	// precision is with which updates name the words of their devices.
	UpdateWords *float64 `json:"update_words,omitempty" range:"[1,1e9]" unit:"times what frequency gives"`
}

// Breaches implements audits.Limits.
func (l *Limits) Breaches(c *audits.Cell) []string {
	v, ok := audits.VerdictOf[*Verdict](c)
	if !ok || v.BaselineAP <= 0 {
		return nil
	}
	return audits.Above("the AP of words read off updates, over that by their frequency alone,", v.AP/v.BaselineAP, l.UpdateWords)
}
