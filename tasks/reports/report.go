package reports

import (
	"encoding/json"
	"errors"
	"fmt"

	"coalmine/internal/encoding"
	"coalmine/privacy"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/devices"
	"coalmine/tasks/selection"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
)

// Utility is the audit with an outcome outside the list of audits.
const Utility = "utility"

// Report is the outcome of a cell. Outcomes of audits are JSON here; package results interprets
// them by the audits' descriptions.
type Report struct {
	Utility json.RawMessage `json:"utility,omitempty"`
	Privacy *privacy.Report `json:"privacy,omitempty"`
	// Budget is the use of the privacy budget; nil without a budget.
	Budget *BudgetUse `json:"privacy_budget,omitempty"`
	Audit  *Audit     `json:"audit,omitempty"`
	// Faults counts planted faults; nil without faults.
	Faults []faults.Count `json:"faults,omitempty"`
	// Skipped counts the faulty records of the source; nil if there are none.
	Skipped *source.Skipped `json:"skipped,omitempty"`
	// Selection counts the choice of data.select; nil without one.
	Selection *selection.Selection `json:"selection,omitempty"`
	// Devices describes the division of users by data.devices; nil without it.
	Devices *devices.Summary `json:"devices,omitempty"`
	// Sanitized counts the removals of sanitization; nil without it.
	Sanitized *filters.Sanitized `json:"sanitized,omitempty"`
	// Disagreement counts the removals of the filter of two models; nil without it.
	Disagreement *filters.Disagreement `json:"disagreement,omitempty"`
	// Stopping is the choice of early stopping; nil without it.
	Stopping *training.Stopping `json:"early_stopping,omitempty"`
	// StopAt is the progress towards the target of the training; nil without a target.
	StopAt *training.TargetProgress `json:"stop_at,omitempty"`
	// Recorded counts the recorded updates of the devices; nil without recording.
	Recorded *Recorded `json:"recorded,omitempty"`
	// Training describes the training and its data.
	Training Training `json:"training"`
	// Curve holds the measurements along the training, including the last.
	Curve []Point `json:"curve"`
}

// Outcome returns the outcome of an audit as JSON; false if there is none.
func (r *Report) Outcome(audit string) (json.RawMessage, bool) {
	if audit == Utility {
		return r.Utility, r.Utility != nil
	}
	if r.Audit == nil {
		return nil, false
	}
	return r.Audit.Outcomes.Get(audit)
}

// Recorded counts the recorded updates of the devices.
type Recorded struct {
	// Rounds counts the recorded rounds, Updates the updates of their devices.
	Rounds  int `json:"rounds"`
	Updates int `json:"updates"`
	// Layers are the layers of an update, Values the number of all their values.
	Layers []updates.Layer `json:"layers"`
	Values int             `json:"values"`
	// Bytes is the size of the updates in the store.
	Bytes int64 `json:"bytes"`
}

// BudgetUse is the use of a privacy budget.
type BudgetUse struct {
	privacy.Budget
	// RoundsAllowed is the largest number of rounds that the budget allows; Privacy.Rounds have
	// run.
	RoundsAllowed int `json:"rounds_allowed"`
	// Stopped reports whether one more round would have exceeded the budget.
	Stopped bool `json:"stopped"`
}

// Training describes a training and its data.
type Training struct {
	TrainingParams
	// Epochs is the number of passes over the population.
	Epochs float64 `json:"epochs"`
	// Users, Examples and Words count the population.
	population.Counts
	// ReplacedExamples counts the examples that are canaries.
	ReplacedExamples int `json:"replaced_examples"`
}

// Audit holds the outcomes of the last model. Its JSON is an object with the outcomes under the
// names of their audits, and three lists: the inserted canaries; never_inserted, canaries that no
// user drew; and controls, canaries held back on purpose.
type Audit struct {
	// Outcomes are the outcomes by the names of the audits.
	Outcomes encoding.Object
	canaries []Canary
}

// Canaries returns the canaries of the canaries block: inserted, never inserted, and held back.
func (a *Audit) Canaries() []Canary {
	var all []Canary
	for _, list := range roles {
		all = append(all, a.with(list.role)...)
	}
	return all
}

// roles describes the lists of canaries.
var roles = []struct {
	name string
	role audits.Role
}{{"canaries", audits.Inserted}, {"never_inserted", audits.NeverInserted}, {"controls", audits.HeldBack}}

func newAudit() *Audit { return &Audit{Outcomes: encoding.Object{}} }

func (a *Audit) with(role audits.Role) []Canary {
	list := []Canary{}
	for _, c := range a.canaries {
		if c.Role == role {
			list = append(list, c)
		}
	}
	return list
}

// MarshalJSON implements json.Marshaler.
func (a Audit) MarshalJSON() ([]byte, error) {
	var out encoding.Object
	err := out.Merge(a.Outcomes)
	for _, list := range roles {
		err = errors.Join(err, out.Set(list.name, a.with(list.role)))
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Audit) UnmarshalJSON(data []byte) error {
	*a = Audit{}
	if err := json.Unmarshal(data, &a.Outcomes); err != nil {
		return err
	}
	for _, list := range roles {
		raw, there := a.Outcomes.Get(list.name)
		if !there {
			continue
		}
		var found []Canary
		if err := json.Unmarshal(raw, &found); err != nil {
			return fmt.Errorf("%s: %w", list.name, err)
		}
		for i := range found {
			found[i].Role = list.role
		}
		a.canaries = append(a.canaries, found...)
		a.Outcomes = a.Outcomes.Without(list.name)
	}
	return nil
}

// Canary is one canary: counts of its copies, and its outcomes. Its JSON has the outcomes next to
// the other fields.
type Canary struct {
	Role audits.Role `json:"-"`
	place
	Outcomes encoding.Object `json:"-"`
}

// Decode decodes the outcome that an audit has set.
func (c *Canary) Decode(outcome any) error {
	data, err := json.Marshal(c.Outcomes)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, outcome)
}

type place struct {
	Words              []string `json:"words"`
	UserProbability    float64  `json:"user_probability"`
	ExampleProbability float64  `json:"example_probability"`
	// InsertedTimes is the chosen number of insertions; absent if probabilities determine it.
	InsertedTimes int `json:"inserted_times,omitempty"`
	// Format names the canary's format, if there are several.
	Format string `json:"format,omitempty"`
	// Users counts the sharers before an iid shuffle, Holders the users with copies after it, and
	// Insertions the copies.
	Users      int `json:"users"`
	Holders    int `json:"holders"`
	Insertions int `json:"insertions"`
}

// NewCanary returns the canary of a placement, without outcomes.
func NewCanary(p population.Placement) (Canary, error) {
	c := Canary{Role: audits.Inserted, place: place{
		Words: p.Words, InsertedTimes: p.InsertedTimes, Format: p.Format, Users: p.Users, Holders: p.Holders, Insertions: p.Insertions,
	}}
	switch {
	case p.HeldBack:
		c.Role = audits.HeldBack
		return c, nil
	case p.Insertions == 0:
		c.Role = audits.NeverInserted
	}
	configuration, err := audits.NewConfiguration(&p.Canary)
	if err != nil {
		return c, err
	}
	c.UserProbability, c.ExampleProbability = configuration.UserProbability, configuration.ExampleProbability
	return c, nil
}

// firstOutcomes are members that every canary has, null if no audit has set them: programs rely on
// them.
var firstOutcomes = []string{
	"rank", "rank_exact", "log_perplexity", "exposure", "exposure_se", "exposure_censored", "memorized", "beam_found",
}

// MarshalJSON implements json.Marshaler.
func (c Canary) MarshalJSON() ([]byte, error) {
	out, err := encoding.ObjectOf(c.place)
	for _, name := range firstOutcomes {
		err = errors.Join(err, out.Set(name, nil))
	}
	if err := errors.Join(err, out.Merge(c.Outcomes)); err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Canary) UnmarshalJSON(data []byte) error {
	*c = Canary{}
	known, err := encoding.ObjectOf(c.place)
	if err := errors.Join(err, json.Unmarshal(data, &c.place), json.Unmarshal(data, &c.Outcomes)); err != nil {
		return err
	}
	for _, m := range known {
		c.Outcomes = c.Outcomes.Without(m.Name)
	}
	return nil
}

// Point holds the measurements after a round. Its JSON has the metrics next to the other fields.
type Point struct {
	Round   int
	Utility json.RawMessage
	// Metrics are the audits' metrics, by name.
	Metrics encoding.Object
	// Privacy is the cost of the training so far; nil if no privacy is claimed.
	Privacy *Cost
}

// Cost is the privacy spent up to a round, by the papers' convention and proved; the
// Report's Privacy states the assumptions. Infinite epsilons are null.
type Cost struct {
	Epsilon       privacy.Epsilon `json:"epsilon"`
	EpsilonProved privacy.Epsilon `json:"epsilon_proved"`
	Infinite      bool            `json:"infinite,omitempty"`
	Delta         float64         `json:"delta"`
}

// MarshalJSON implements json.Marshaler.
func (p Point) MarshalJSON() ([]byte, error) {
	var out encoding.Object
	err := out.Set("round", p.Round)
	if p.Utility != nil {
		err = errors.Join(err, out.Set(Utility, p.Utility))
	}
	err = errors.Join(err, out.Merge(p.Metrics))
	if p.Privacy != nil {
		err = errors.Join(err, out.Set("privacy", p.Privacy))
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Point) UnmarshalJSON(data []byte) error {
	*p = Point{}
	if err := json.Unmarshal(data, &p.Metrics); err != nil {
		return err
	}
	for name, into := range map[string]any{"round": &p.Round, Utility: &p.Utility, "privacy": &p.Privacy} {
		raw, there := p.Metrics.Get(name)
		if !there {
			continue
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p.Metrics = p.Metrics.Without(name)
	}
	return nil
}

// Metric returns a number that an audit measured after the round.
func (p *Point) Metric(name string) (float64, bool) {
	raw, there := p.Metrics.Get(name)
	if !there {
		return 0, false
	}
	var value float64
	return value, json.Unmarshal(raw, &value) == nil
}
