package attributes

import "coalmine/tasks/audits"

// Limits of audit.fail_if.
type Limits struct {
	// Attributes limits how many times as often the attribute is told right as by always
	// saying the most frequent value: of known and of unseen users, alone and jointly with the
	// identity. A cell is above it where the lower end of one of the 95% intervals of these
	// factors over users is.
	Attributes *float64 `json:"attributes,omitempty" range:"[1,1e9]" unit:"times the most frequent value"`
}

// Breaches implements audits.Limits.
func (l *Limits) Breaches(c *audits.Cell) []string {
	if v, ok := audits.VerdictOf[*Verdict](c); ok {
		return l.gate(v).Breaches()
	}
	return nil
}

// Unjudged implements audits.Unjudger.
func (l *Limits) Unjudged(c *audits.Cell) []string {
	if v, ok := audits.VerdictOf[*Verdict](c); ok {
		return l.gate(v).Unjudged()
	}
	return nil
}

// gate has judged all numbers.
func (l *Limits) gate(v *Verdict) *audits.Gate {
	alone, joint := v.Attribute.orNone(), v.Joint.orNone()
	g := audits.Gate{Limit: l.Attributes}
	for _, x := range []struct {
		what             string
		found, mostOften *Accuracy
	}{
		{"the accuracy of the attribute", alone.Attribute, v.Majority.Seen},
		{"the accuracy of the attribute, jointly,", joint.Attribute, v.Majority.Seen},
		{"the accuracy of the attribute of unseen users", alone.Unseen, v.Majority.Unseen},
		{"the accuracy of the attribute of unseen users, jointly,", joint.Unseen, v.Majority.Unseen},
	} {
		if x.found != nil && x.found.FactorLow != nil {
			chance := x.mostOften.Accuracy
			g.Factor(x.what, x.found.Users, audits.Bounded{Value: x.found.Accuracy, Low: *x.found.FactorLow * chance, High: x.found.High}, chance)
		}
	}
	return &g
}

// FalseAlarms implements audits.FalseAlarmer.
func (l *Limits) FalseAlarms(s *audits.Setting) []audits.FalseAlarm {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return nil
	}
	numbers := 2
	if s.Devices != nil && s.Devices.Unseen.Float64() > 0 {
		numbers = 4
	}
	return audits.FactorAlarms("attributes", l.Attributes, numbers, "accuracies", s.Owners(), 1/float64(len(f.Attributes.Values)))
}
