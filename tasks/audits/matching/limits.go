package matching

import "coalmine/tasks/audits"

// Limits of audit.fail_if.
type Limits struct {
	// Matching limits how many times chance, which is 50, the average precision of pairs of a
	// shadow device's update and an anonymous one is: those alone tell a user. The better of
	// the network and the cosine counts. A cell is above it where the lower end of the 95%
	// interval over users is.
	Matching *float64 `json:"matching,omitempty" range:"[1,2)" unit:"times chance"`
}

// Breaches implements audits.Limits.
func (l *Limits) Breaches(c *audits.Cell) []string {
	v, ok := audits.VerdictOf[*Verdict](c)
	if !ok || v.Shadow == nil {
		return nil
	}
	by, best := "the network", v.Shadow.Network.AP
	if other := v.Shadow.Cosine.AP; other.Low > best.Low {
		by, best = "the cosine", other
	}
	g := audits.Gate{Limit: l.Matching}
	g.Factor("the AP of pairs with a shadow device, told by "+by+",", v.Shadow.Network.Users, best.Bounded(), audits.PairChance)
	return g.Breaches()
}

// FalseAlarms implements audits.FalseAlarmer.
func (l *Limits) FalseAlarms(s *audits.Setting) []audits.FalseAlarm {
	return audits.FactorAlarms("matching", l.Matching, 2, "scores", s.Owners(), audits.PairChance)
}
