package linking

import "coalmine/tasks/audits"

// Limits of audit.fail_if.
type Limits struct {
	// Linking limits how many times chance, which is 50, the average precision of pairs of
	// anonymous updates is. A cell is above it where the lower end of the 95% interval over
	// devices is.
	Linking *float64 `json:"linking,omitempty" range:"[1,2)" unit:"times chance"`
}

// Breaches implements audits.Limits.
func (l *Limits) Breaches(c *audits.Cell) []string {
	v, ok := audits.VerdictOf[*Verdict](c)
	if !ok {
		return nil
	}
	g := audits.Gate{Limit: l.Linking}
	g.Factor("the AP of linked updates", v.Pairs.Users, v.Pairs.AP.Bounded(), audits.PairChance)
	return g.Breaches()
}

// FalseAlarms implements audits.FalseAlarmer.
func (l *Limits) FalseAlarms(s *audits.Setting) []audits.FalseAlarm {
	return audits.FactorAlarms("linking", l.Linking, 1, "measurement", s.Owners(), audits.PairChance)
}
