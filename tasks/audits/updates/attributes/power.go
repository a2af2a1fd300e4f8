package attributes

import (
	"math"
	"strings"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"coalmine/tasks/audits"
)

// power returns the power of the accuracy for users with a shadow device, if the value of each is known with
// a probability and otherwise guessed, for all updates alike. Values are equally frequent. Before the
// training all such users count as having a value.
func power(s *audits.Setting, v audits.Outcome) []audits.Statement {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return nil
	}
	users, chance := 0, 1/float64(len(f.Attributes.Values))
	if o, _ := v.(*Outcome); o != nil && o.Attribute.Attribute != nil {
		users = o.Attribute.Attribute.Users
	} else if v == nil && s.Data != nil {
		users = s.Data.Seen
	}
	if users == 0 {
		return nil
	}
	return []audits.Statement{{
		Finds: "the accuracy is certainly above that of the most frequent value", Limit: "attributes",
		Leak:    audits.Leak{Name: "share", Means: "the value of each user is known, and not guessed, with the probability", Default: 0.2, Most: 1},
		Sizes:   []audits.Size{{Unit: "user", N: users}},
		None:    strings.TrimPrefix(audits.TooFewToTell(users, chance), ", "),
		Nothing: func(v audits.Outcome) bool { return v.(*Outcome).nothing() },
		Power: func(q audits.Question) float64 {
			factor := q.LimitOr(1)
			if q.Sizes[0] < audits.MinAbove(factor*chance) {
				return 0
			}
			return accuracyPower(q.Leak+(1-q.Leak)*chance, chance, factor, q.Sizes[0])
		},
	}}
}

func (v *Outcome) nothing() bool {
	known := 0
	for _, a := range []*Accuracy{v.Attribute.Attribute, v.Joint.Attribute} {
		if a != nil && a.FactorLow != nil {
			known++
			if *a.FactorLow > 1 {
				return false
			}
		}
	}
	return known > 0
}

// accuracyPower is the probability that the lower end of an accuracy over n users is above a factor times
// that of the most frequent value, by the normal approximation of the difference and of its resamples. The
// unseen user counts as a wrong guess for a user with the most frequent value.
func accuracyPower(accuracy, chance, factor float64, users int) float64 {
	n := float64(users)
	mean := accuracy - float64(factor*chance)
	variance := accuracy*(1-accuracy) + float64(factor*factor*chance*(1-chance))
	resampled := (n*mean - factor) / (n + 1)
	spread := (n*(variance+float64(mean*mean))+float64(factor*factor))/(n+1) - float64(resampled*resampled)
	low := resampled - float64(mathext.NormalQuantile((1+audits.Confidence)/2)*math.Sqrt(spread/(n+2)))
	return distuv.UnitNormal.CDF(low / math.Sqrt(variance*n) * (n + 1))
}
