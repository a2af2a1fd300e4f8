package attributes

import "coalmine/tasks/audits"

var limits = []audits.Limit{audits.LimitOf[float64]{
	Name: "attributes",
	Doc: "Attributes limits how many times as often the attribute is told right as by always saying the most frequent value: of known and of unseen users, " +
		"alone and jointly with the identity. A cell is above it where the lower end of one of the 95% intervals of these factors over users is.",
	Range: "[1,1e9]", Unit: "times the most frequent value",
	Breaches:    audits.Judged(func(v *Outcome, limit float64) []string { return judge(v, limit).Breaches() }),
	Unjudged:    audits.Judged(func(v *Outcome, limit float64) []string { return judge(v, limit).Unjudged() }),
	FalseAlarms: falseAlarms,
}.Limit()}

// judge judges all numbers.
func judge(v *Outcome, limit float64) *audits.Gate {
	alone, joint := v.Attribute.orNone(), v.Joint.orNone()
	g := audits.Gate{Limit: limit}
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

func falseAlarms(s *audits.Setting, limit float64) []audits.FalseAlarm {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return nil
	}
	numbers := 2
	if s.Devices != nil && s.Devices.Unseen.Float64() > 0 {
		numbers = 4
	}
	return audits.FactorAlarms("attributes", limit, numbers, "accuracies", s.Owners(), 1/float64(len(f.Attributes.Values)))
}
