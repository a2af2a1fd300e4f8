package experiment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/readable"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/text"
)

// Statement is a statement of a cell's audit whose power can be computed.
type Statement struct {
	Audit string
	// Gate is the field of audit.fail_if that limits the value; larger values than Allowed are findings.
	// Without a gate, the audit defines findings.
	Gate    string
	Allowed *float64
	// Found is the outcome of the audit, or nil before there is one.
	Found audits.Outcome
	audits.Statement

	setting *audits.Setting
	fields  audits.Fields // nil for an audit without fields
}

// String returns a name such as "membership tpr".
func (s *Statement) String() string {
	if s.Name == "" {
		return s.Audit
	}
	return s.Audit + " " + s.Name
}

// Find describes the results that are findings.
func (s *Statement) Find() string {
	if s.Allowed == nil {
		return s.Finds
	}
	return fmt.Sprintf("audit.fail_if.%s: %g fails", s.Gate, *s.Allowed)
}

// PowerAt returns the power for sizes and a leak.
func (s *Statement) PowerAt(sizes []int, leak float64) float64 {
	return s.Power(audits.Question{Sizes: sizes, Leak: leak, Limit: s.Allowed})
}

// Reaches reports whether the power for sizes and a leak is at least enough.
func (s *Statement) Reaches(enough float64, sizes []int, leak float64) bool {
	has := func(power float64) bool { return power >= enough }
	return has(s.Power(audits.Question{Sizes: sizes, Leak: leak, Limit: s.Allowed, Enough: has}))
}

// Statements returns the statements of a cell's audits whose power can be computed. If found is not nil, it
// returns the outcome of the audit at a position in package all; measured numbers then replace planned ones.
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

// Powerless is an audit without power, because it reports neither an interval nor a test.
type Powerless struct {
	Audit string `json:"audit"`
	// Reports names the reported numbers, as the end of the sentence "the audit reports ...".
	Reports string `json:"reports"`
}

// Powerless returns the audits without power that any cell requests.
func (s *Spec) Powerless() (list []Powerless) {
	for place := range all.Audits() {
		d := &all.Audits()[place]
		if d.Powerless != "" && slices.ContainsFunc(s.Cells, func(c Cell) bool { return c.Experiment.Audit.asks(place) }) {
			list = append(list, Powerless{d.Name, d.Powerless})
		}
	}
	return list
}

// gated appends the statements that limits of audit.fail_if judge.
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

// Power is a statement and the cells that make it.
type Power struct {
	Statement
	Cells []string
}

// Powers returns the distinct statements of all cells. Their last size is the number of seeds: a row has a
// finding if one of its seeds has.
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

// rows returns the cells of each row of the results table.
func (s *Spec) rows() (rows [][]*Cell) {
	places := map[string]int{}
	for i := range s.Cells {
		c := &s.Cells[i]
		name := c.Name
		if c.Row != nil {
			name = c.Row.Name
		}
		at, known := places[name]
		if !known {
			at = len(rows)
			places[name], rows = at, append(rows, nil)
		}
		rows[at] = append(rows[at], c)
	}
	return rows
}

// Identity differs for statements with different power. It contains their numbers and fields, and the
// cell's vocabulary, parameters, tensors, canaries, training and numbers of users and examples. For a
// statement that names its facts (Of), it contains these instead of the fields and the cell's values.
func (s *Statement) Identity() string {
	facts := []any{s.fields, s.setting.Ordinary, s.setting.Trained, s.setting.TrainedTensors, s.setting.Canaries, s.setting.Training}
	if d := s.setting.Data; d != nil {
		facts = append(facts, d.Users, d.Examples)
	}
	if s.Of != nil {
		facts = []any{s.Of}
	}
	text, err := json.Marshal(facts)
	if err != nil { // impossible for fields of a file
		return ""
	}
	return fmt.Sprint(s, s.Find(), s.Leak, s.Sizes, string(text))
}

// addSeeds appends the number of seeds to the sizes.
func (s *Statement) addSeeds(seeds int) {
	last, one := len(s.Sizes), s.Power
	s.Sizes = append(slices.Clone(s.Sizes), audits.FieldSize("grid.replicates", "seed", seeds))
	s.Power = func(q audits.Question) float64 {
		n := float64(q.Sizes[last])
		some := func(power float64) float64 { return -math.Expm1(n * math.Log1p(-power)) }
		if enough := q.Enough; enough != nil {
			q.Enough = func(power float64) bool { return enough(some(power)) }
		}
		q.Sizes = q.Sizes[:last]
		return some(one(q))
	}
}

// powerWarnings warns of audits that cannot find anything and of limits that cannot be exceeded.
func (c *Cell) powerWarnings() (warnings []string) {
	for _, s := range c.gated(c.Statements(nil)) {
		switch {
		case s.Allowed != nil && s.Largest != nil && *s.Allowed >= s.Largest():
			warnings = append(warnings, fmt.Sprintf("audit.fail_if.%s: %g cannot fail: with %s the value is at most %.3g; lower the limit, or use more",
				s.Gate, *s.Allowed, readable.Count(s.Sizes[0].N, s.Sizes[0].Unit), s.Largest()))
		case s.Allowed == nil && s.None != "":
			warnings = append(warnings, fmt.Sprintf("audit.%s has no power: %s", &s, s.None))
		}
	}
	return warnings
}

// FalseAlarm is the probability that a limit of audit.fail_if fails by chance, usually in cells whose
// models have memorized nothing.
type FalseAlarm struct {
	// Limit is the path of the field. Allowed is the largest value that passes.
	Limit   string  `json:"limit"`
	Allowed float64 `json:"allowed"`
	// Cells is the number of cells with this limit. Trials is their total number of chances for a false
	// alarm, in Unit, such as "canaries".
	Cells  int    `json:"cells"`
	Trials int    `json:"trials"`
	Unit   string `json:"unit"`
	// Where describes the cells. It is empty if their models have memorized nothing.
	Where string `json:"where,omitempty"`
	// Probability is the probability that at least one cell exceeds the limit: 1 minus the product of 1 - p
	// over the cells. For several cells it is an upper bound, because cells with the same seed share
	// canaries and references, and therefore false alarms.
	Probability float64 `json:"probability"`
	// Users and MinUsers are set if the data have fewer users than the limit needs. The cells then fail by
	// design, and Probability is 1.
	Users    int `json:"users,omitempty"`
	MinUsers int `json:"fewest_users,omitempty"`
}

func (f FalseAlarm) String() string {
	if f.MinUsers > 0 {
		return fmt.Sprintf("%s: %g cannot pass with %d users, because it needs %d; the gate fails by design, not by a false alarm, unless the upper bound of the value is below the limit (cells: %d)",
			f.Limit, f.Allowed, f.Users, f.MinUsers, f.Cells)
	}
	return fmt.Sprintf("%s: %g gives a false alarm with a probability of at most %.2g (%s in total: %d, cells: %d, %s)",
		f.Limit, f.Allowed, f.Probability, f.Unit, f.Trials, f.Cells, cmp.Or(f.Where, "nothing memorized"))
}

// FalseAlarms returns the limits that may fail by chance, in the order of the cells, with one entry per
// value of a field. Limits with too few users have separate entries.
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

// add adds a cell. 1 - (1-P)(1-p) is P + p(1-P), which does not cancel if both are small.
func (f *FalseAlarm) add(a audits.FalseAlarm) {
	f.Cells++
	f.Trials += a.Trials
	f.Probability = math.Min(1, f.Probability+a.Probability*(1-f.Probability))
}

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

// Planted returns the faults as parameters of tasks.
func (d *Data) Planted() []faults.Planted {
	var planted []faults.Planted
	for _, f := range d.Faults {
		planted = append(planted, faults.Planted{Fault: f.Fault, Users: f.Users.Float64(), Examples: f.Examples.Float64(), Length: f.Length})
	}
	return planted
}

// faults checks each fault separately.
func (c *checker) faults() {
	level := c.Data.sourceLevel()
	for i := range c.Data.Faults {
		f, path := &c.Data.Faults[i], itemPath("data.faults", i)
		if f.Users.IsZero() && f.Examples.IsZero() {
			c.fail([]string{path, join(path, "users"), join(path, "examples")}, "has no share; expected users or examples, such as {fault: %s, examples: 10%%}", f.Fault)
		}
		levels := faultLevels(f.Fault)
		if !slices.Contains(levels, level) {
			c.fail([]string{join(path, "fault"), "data.level"}, "is %s, which data.level: %s does not support; expected %s, or another fault", f.Fault, level, listed(levels))
		}
	}
}

// faultLevels returns the levels that support a fault, or nil if the fault is unknown.
func faultLevels(f faults.Name) []text.Level {
	for _, s := range faults.All() {
		if s.Fault == f {
			return s.Levels
		}
	}
	return nil
}

func listed(levels []text.Level) string {
	var words []string
	for _, l := range levels {
		words = append(words, string(l))
	}
	return strings.Join(words, " or ")
}

// faultsText describes planted faults, given as JSON, in a label.
func faultsText(value string) string {
	var faults []Fault
	if value == "" || json.Unmarshal([]byte(value), &faults) != nil {
		return "no fault"
	}
	var texts []string
	for i := range faults {
		texts = append(texts, faults[i].String())
	}
	return strings.Join(texts, " and ")
}

// String returns a phrase such as "join-words in 10% of examples".
func (f *Fault) String() string {
	var of []string
	if !f.Examples.IsZero() {
		of = append(of, f.Examples.String()+" of examples")
	}
	if !f.Users.IsZero() {
		of = append(of, f.Users.String()+" of users")
	}
	return string(f.Fault) + " in " + strings.Join(of, " of ")
}
