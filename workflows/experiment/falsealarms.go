package experiment

import (
	"cmp"
	"fmt"
	"math"

	"coalmine/tasks/audits"
)

// FalseAlarm is the probability that a limit of audit.fail_if stops a run by chance, usually a run
// in which no model has memorized anything.
type FalseAlarm struct {
	// Limit is the path of the field, Allowed the largest value that passes.
	Limit   string  `json:"limit"`
	Allowed float64 `json:"allowed"`
	// Cells is the number of cells with this limit. Trials is the number of chances for a false
	// alarm in all of them, in Unit: "canaries".
	Cells  int    `json:"cells"`
	Trials int    `json:"trials"`
	Unit   string `json:"unit"`
	// Where describes the cells concerned; empty for cells in which nothing is memorized.
	Where string `json:"where,omitempty"`
	// Probability is the probability that at least one of the cells exceeds the limit: 1 minus the
	// product of 1 - p over the cells. Cells of one seed share their canaries and references, and
	// therefore their false alarms: for several cells it is an upper bound.
	Probability float64 `json:"probability"`
	// Users and MinUsers are set if the data have fewer users than the limit needs: then the
	// cells fail by design, and Probability is 1.
	Users    int `json:"users,omitempty"`
	MinUsers int `json:"fewest_users,omitempty"`
}

func (f FalseAlarm) String() string {
	if f.MinUsers > 0 {
		return fmt.Sprintf("%s: %g cannot be passed with so few users: %d, where it takes %d; the gate fails by design, not by a false alarm, unless the number is certainly below the limit (cells: %d)",
			f.Limit, f.Allowed, f.Users, f.MinUsers, f.Cells)
	}
	return fmt.Sprintf("%s: %g gives a false alarm with a probability of at most %.2g (%s in all: %d, cells: %d, %s)",
		f.Limit, f.Allowed, f.Probability, f.Unit, f.Trials, f.Cells, cmp.Or(f.Where, "nothing memorized"))
}

// FalseAlarms lists the limits that may fail by chance, in the order of the cells. Different values
// of one field are separate entries, and so are limits with too few users.
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
				alarms = append(alarms, FalseAlarm{Limit: "audit.fail_if." + a.Limit, Allowed: a.Allowed, Unit: a.Unit, Where: a.Where, Users: key.users, MinUsers: key.fewest})
			}
			alarms[at].add(a)
		}
	}
	return alarms
}

// add includes one more cell: 1 - (1-P)(1-p) is P + p(1-P), without cancellation if both are small.
func (f *FalseAlarm) add(a audits.FalseAlarm) {
	f.Cells++
	f.Trials += a.Trials
	f.Probability = math.Min(1, f.Probability+a.Probability*(1-f.Probability))
}

// falseAlarms returns the false alarms of one cell.
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
