package deanonymization

import (
	"fmt"
	"math"

	"coalmine/internal/readable"
	"coalmine/tasks/audits"
)

// power returns the power of the best attack if it names the device of each user with a probability, and
// otherwise has average precision 0. Chance is one of the users.
func power(s *audits.Setting, v audits.Outcome) []audits.Statement {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return nil
	}
	users := 0
	if o, _ := v.(*Outcome); o != nil && o.Best() != nil {
		users = o.Best().Users
	} else if v == nil && s.Data != nil {
		users = s.Data.Seen
	}
	if users == 0 {
		return nil
	}
	tail := (1 - f.Deanonymization.Confidence.Float64()) / float64(len(f.Deanonymization.Attacks))
	found := audits.Statement{
		Finds: "an attack is certainly above chance", Limit: "deanonymization",
		Leak:    audits.Leak{Name: "share", Means: "the device of each user is named outright with the probability", Default: 0.2, Most: 1},
		Sizes:   []audits.Size{{Unit: "user", N: users}},
		Nothing: func(v audits.Outcome) bool { return v.(*Outcome).nothing() },
		Power: func(q audits.Question) float64 {
			n, limit := q.Sizes[0], q.LimitOr(1)
			return audits.MoreThan(audits.MinCertain(n, limit/math.Max(1, float64(n)), tail)-1, n, q.Leak)
		},
	}
	if audits.MinCertain(users, 1/float64(users), tail) > users {
		found.None = fmt.Sprintf("were all of %s named, no attack were certainly above chance", readable.Count(users, "user"))
	}
	return []audits.Statement{found}
}

func (v *Outcome) nothing() bool {
	for i := range v.Attacks {
		if v.Attacks[i].FactorAtLeast > 1 {
			return false
		}
	}
	return v.Best() != nil
}
