package experiment

import (
	"cmp"
	"fmt"
	"math"

	"coalmine/tasks/audits"
)

// FalseAlarm is how likely a limit of audit.fail_if stops a run by chance, as a rule one in
// which no model has memorized anything.
type FalseAlarm struct {
	// Limit is the path of the field, Allowed the largest value that passes.
	Limit   string  `json:"limit"`
	Allowed float64 `json:"allowed"`
	// Cells have this limit. Trials is how often it is left to chance in all of them
	// together, by Unit: "canaries".
	Cells  int    `json:"cells"`
	Trials int    `json:"trials"`
	Unit   string `json:"unit"`
	// Where says of which cells this is so; empty for those in which nothing is memorized.
	Where string `json:"where,omitempty"`
	// Probability that at least one of the cells is above the limit: 1 less the product
	// of 1 - p over the cells. Cells of one seed share their canaries and references, and
	// so their false alarms: for several it is then an upper bound.
	Probability float64 `json:"probability"`
	// Users and FewestUsers are there where the data have fewer users than it takes to judge
	// the limit: then the cells fail by design, and Probability is 1.
	Users       int `json:"users,omitempty"`
	FewestUsers int `json:"fewest_users,omitempty"`
}

// String is a sentence for people.
func (f FalseAlarm) String() string {
	if f.FewestUsers > 0 {
		return fmt.Sprintf("%s: %g cannot be passed with so few users: %d, where it takes %d; the gate fails by design, not by a false alarm, unless the number is certainly below the limit (cells: %d)",
			f.Limit, f.Allowed, f.Users, f.FewestUsers, f.Cells)
	}
	return fmt.Sprintf("%s: %g gives a false alarm with a probability of at most %.2g (%s in all: %d, cells: %d, %s)",
		f.Limit, f.Allowed, f.Probability, f.Unit, f.Trials, f.Cells, cmp.Or(f.Where, "nothing memorized"))
}

// FalseAlarms lists the limits that may fail by chance alone, in the order of the cells.
// Limits of one field with different values stand apart, and those of too few users.
func (s *Spec) FalseAlarms() []FalseAlarm {
	type limit struct {
		name          string
		allowed       float64
		users, fewest int
	}
	var alarms []FalseAlarm
	places := map[limit]int{}
	for i := range s.Cells {
		for _, a := range s.Cells[i].falseAlarms() {
			key := limit{name: a.Limit, allowed: a.Allowed}
			if a.TooFew() {
				a.Probability, key.users, key.fewest = 1, a.Users, a.Fewest
			}
			at, known := places[key]
			if !known {
				at = len(alarms)
				places[key] = at
				alarms = append(alarms, FalseAlarm{Limit: "audit.fail_if." + a.Limit, Allowed: a.Allowed, Unit: a.Unit, Where: a.Where, Users: key.users, FewestUsers: key.fewest})
			}
			alarms[at].add(a)
		}
	}
	return alarms
}

// add counts one more cell: 1 - (1-P)(1-p) is P + p(1-P), without cancellation where
// both are small.
func (f *FalseAlarm) add(a audits.FalseAlarm) {
	f.Cells++
	f.Trials += a.Trials
	f.Probability = math.Min(1, f.Probability+a.Probability*(1-f.Probability))
}

// falseAlarms are those of one cell.
func (c *Cell) falseAlarms() []audits.FalseAlarm {
	e := c.Experiment
	if e.Audit == nil || e.Audit.FailIf == nil {
		return nil
	}
	s := c.Setting()
	var alarms []audits.FalseAlarm
	for _, l := range e.Audit.FailIf.GivenLimits() {
		alarms = append(alarms, l.FalseAlarms(s, l.Value)...)
	}
	return alarms
}
