package results

import (
	"cmp"
	"fmt"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/tasks/audits"
	"coalmine/workflows/experiment"
)

// Undetected is a statement of an audit that found nothing, with its power.
type Undetected struct {
	// Statement is the name, such as "membership tpr".
	Statement string `json:"statement"`
	// Sizes are the sizes of the audit, such as "8 canaries".
	Sizes []string `json:"sizes"`
	// Find describes a finding, which occurs by chance with a probability of at most chance.
	Find   string `json:"find"`
	chance float64
	// Leak describes the model of the leak, and Size is its size.
	Leak string  `json:"leak"`
	Size float64 `json:"size"`
	// Power is the probability of a finding if the leak exists.
	Power float64 `json:"power"`
	// None is the reason why no leak of any size can be found, or "".
	None string `json:"none,omitempty"`
}

func (u Undetected) String() string {
	if u.None != "" {
		return fmt.Sprintf("%s has found nothing, and cannot find a leak of any size: %s", u.Statement, u.None)
	}
	return fmt.Sprintf("%s has found nothing (a finding, by chance in at most %g%%: %s); with %s its power is %s if %s %g",
		u.Statement, 100*cmp.Or(u.chance, audits.Significance), u.Find, strings.Join(u.Sizes, " and "), readable.Percent(u.Power), u.Leak, u.Size)
}

// undetected returns the statements of a finished cell's audits that found nothing. outcomes are in the
// order of the audits.
func undetected(c *experiment.Cell, outcomes []audits.Outcome) []experiment.Statement {
	all := c.Statements(func(place int) audits.Outcome { return outcomes[place] })
	return lists.Filter(all, func(s experiment.Statement) bool { return s.Found != nil && s.Nothing != nil && s.Nothing(s.Found) })
}

// addPowers sets the power of the statements without a finding. A simulation may take a second, so it
// computes equal powers once for all cells.
func (r *Results) addPowers() {
	powers := map[string]float64{}
	for i := range r.Cells {
		for _, s := range r.Cells[i].undetected {
			key := s.Identity()
			power, known := powers[key]
			if !known {
				power = s.PowerAt(s.Numbers(), s.Leak.Default)
				powers[key] = power
			}
			u := Undetected{Statement: s.String(), Find: s.Finds, chance: s.Chance, Leak: s.Leak.Means, Size: s.Leak.Default, Power: power, None: s.None}
			for _, size := range s.Sizes {
				u.Sizes = append(u.Sizes, readable.Count(size.N, size.Unit))
			}
			r.Cells[i].Undetected = append(r.Cells[i].Undetected, u)
		}
	}
}
