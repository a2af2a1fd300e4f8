package experiment

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
)

// Statement is a statement of a cell's audit with a computable power.
type Statement struct {
	Audit string
	// Gate is the field of audit.fail_if that defines a finding, above Allowed; if empty, the audit
	// decides.
	Gate    string
	Allowed *float64
	// Found is the outcome of the audit; nil before it.
	Found audits.Outcome
	audits.Statement

	setting *audits.Setting
	fields  audits.Fields // nil for an audit without fields
}

// String returns the name, such as "membership tpr".
func (s *Statement) String() string {
	if s.Name == "" {
		return s.Audit
	}
	return s.Audit + " " + s.Name
}

// Find describes the result that counts as a finding.
func (s *Statement) Find() string {
	if s.Allowed == nil {
		return s.Finds
	}
	return fmt.Sprintf("audit.fail_if.%s: %g fails", s.Gate, *s.Allowed)
}

// Of returns the power at some sizes.
func (s *Statement) Of(sizes []int, leak float64) float64 {
	return s.Power(audits.Question{Sizes: sizes, Leak: leak, Limit: s.Allowed})
}

// Statements returns the statements of a cell's audits with a computable power. found may be nil; it returns
// the outcome of the audit at an index of the list, whose numbers replace the planned ones.
func (c *Cell) Statements(found func(place int) audits.Outcome) (list []Statement) {
	s := c.Setting()
	for place := range all.Audits() {
		d := &all.Audits()[place]
		if d.Power == nil || d.New != nil && !c.Experiment.Audit.asks(place) {
			continue
		}
		var v audits.Outcome
		if found != nil {
			v = found(place)
		}
		for _, statement := range d.Power(s, v) {
			list = append(list, Statement{Audit: d.Name, Found: v, Statement: statement, setting: s, fields: c.Experiment.Audit.Methods[place]})
		}
	}
	return list
}

// Powerless is an audit without power, because it has neither an interval nor a test.
type Powerless struct {
	Audit string `json:"audit"`
	// Reports names the reported numbers; it completes the sentence "the audit reports ...".
	Reports string `json:"reports"`
}

// Powerless lists the audits of all cells without power.
func (s *Spec) Powerless() (list []Powerless) {
	for place := range all.Audits() {
		d := &all.Audits()[place]
		if d.Powerless != "" && slices.ContainsFunc(s.Cells, func(c Cell) bool { return c.Experiment.Audit.asks(place) }) {
			list = append(list, Powerless{d.Name, d.Powerless})
		}
	}
	return list
}

// gated adds the statements that the limits of audit.fail_if judge.
func (c *Cell) gated(list []Statement) []Statement {
	if c.Experiment.Audit == nil {
		return list
	}
	for _, l := range c.Experiment.Audit.FailIf.GivenLimits() {
		for _, s := range list {
			if s.Allowed == nil && s.Limit == l.Name {
				s.Gate, s.Allowed = l.Name, l.Number()
				list = append(list, s)
			}
		}
	}
	return list
}

// Power is a statement of some cells.
type Power struct {
	Statement
	Cells []string
}

// Powers lists the distinct statements of all cells. Their last size is the number of seeds: several seeds
// have a finding if one of them has.
func (s *Spec) Powers() (powers []Power) {
	places := map[string]int{}
	for _, row := range s.rows() {
		c := row[0]
		for _, statement := range c.gated(c.Statements(nil)) {
			statement.addSeeds(len(row))
			key := statement.Identity()
			at, known := places[key]
			if !known {
				at = len(powers)
				places[key] = at
				powers = append(powers, Power{Statement: statement})
			}
			for _, cell := range row {
				powers[at].Cells = append(powers[at].Cells, cell.Name)
			}
		}
	}
	return powers
}

// rows returns the cells of each row of the table of results.
func (s *Spec) rows() (rows [][]*Cell) {
	places := map[string]int{}
	for i := range s.Cells {
		c := &s.Cells[i]
		at, known := len(rows), false
		if c.Row != nil {
			at, known = places[c.Row.Name]
		}
		if known {
			rows[at] = append(rows[at], c)
			continue
		}
		if c.Row != nil {
			places[c.Row.Name] = len(rows)
		}
		rows = append(rows, []*Cell{c})
	}
	return rows
}

// Identity is equal for statements with equal power: it consists of their numbers and fields, and of the
// cell's vocabulary, parameters and canaries.
func (s *Statement) Identity() string {
	facts, err := json.Marshal([]any{s.fields, s.setting.Ordinary, s.setting.Trained, s.setting.Canaries})
	if err != nil { // impossible for fields of an experiment file
		return ""
	}
	return fmt.Sprint(s, s.Find(), s.Leak, s.Sizes, string(facts))
}

// addSeeds appends the number of seeds to the sizes.
func (s *Statement) addSeeds(seeds int) {
	last, one := len(s.Sizes), s.Power
	s.Sizes = append(slices.Clone(s.Sizes), audits.FieldSize("grid.replicates", "seed", seeds))
	s.Power = func(q audits.Question) float64 {
		n := q.Sizes[last]
		q.Sizes = q.Sizes[:last]
		return -math.Expm1(float64(n) * math.Log1p(-one(q)))
	}
}

// powerWarnings lists audits that cannot find anything.
func (c *Cell) powerWarnings() (warnings []string) {
	for _, s := range c.Statements(nil) {
		if s.None != "" {
			warnings = append(warnings, fmt.Sprintf("audit.%s has too few for any statement (%s): %s", &s, c.Label, s.None))
		}
	}
	return warnings
}
