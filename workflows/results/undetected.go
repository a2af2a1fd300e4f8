package results

import (
	"fmt"
	"strings"

	"coalmine/internal/readable"
	"coalmine/tasks/audits"
	"coalmine/workflows/experiment"
)

// Undetected is a statement of an audit that has found nothing, with the power that it had.
type Undetected struct {
	// Statement names it: "membership tpr".
	Statement string `json:"statement"`
	// Sizes are the numbers that the audit looked at: "8 canaries".
	Sizes []string `json:"sizes"`
	// Leak is the text of the model of the leak, Size its size.
	Leak string  `json:"leak"`
	Size float64 `json:"size"`
	// Power is the probability of a find if the leak is there.
	Power float64 `json:"power"`
}

func (u Undetected) String() string {
	return fmt.Sprintf("%s has found nothing; with %s its power is %s if %s %g", u.Statement, strings.Join(u.Sizes, " and "), readable.Percent(u.Power), u.Leak, u.Size)
}

// undetected lists the statements of a finished cell, with its outcomes by their audits' places, that have
// found nothing.
func undetected(c *experiment.Cell, outcomes []audits.Outcome) (list []experiment.Statement) {
	for _, s := range c.Statements(func(place int) audits.Outcome { return outcomes[place] }) {
		if s.Found != nil && s.Nothing != nil && s.Nothing(s.Found) {
			list = append(list, s)
		}
	}
	return list
}

// addPowers sets the power of the statements that have found nothing. A simulated one may take a second, and is
// computed once for all cells in which it is equal.
func (r *Results) addPowers() {
	powers := map[string]float64{}
	for i := range r.Cells {
		for _, s := range r.Cells[i].undetected {
			key := s.Identity()
			power, known := powers[key]
			if !known {
				power = s.Of(s.Numbers(), s.Leak.Default)
				powers[key] = power
			}
			u := Undetected{Statement: s.String(), Leak: s.Leak.Means, Size: s.Leak.Default, Power: power}
			for _, size := range s.Sizes {
				u.Sizes = append(u.Sizes, readable.Count(size.N, size.Unit))
			}
			r.Cells[i].Undetected = append(r.Cells[i].Undetected, u)
		}
	}
}
