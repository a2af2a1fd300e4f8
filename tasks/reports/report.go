package reports

import (
	"encoding/json"
	"errors"
	"fmt"

	"coalmine/internal/encoding"
	"coalmine/privacy"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/devices"
	"coalmine/tasks/selection"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
)

// Utility is the audit whose outcome stands beside the others, not among them.
const Utility = "utility"

// Report is the outcome of a cell. Outcomes of audits are JSON here, whose meaning
// package results takes from their descriptions.
type Report struct {
	Utility json.RawMessage `json:"utility,omitempty"`
	Privacy *privacy.Report `json:"privacy,omitempty"`
	// Budget is how far the privacy budget reached; nil without one.
	Budget *BudgetUse `json:"privacy_budget,omitempty"`
	Audit  *Audit     `json:"audit,omitempty"`
	// Faults say where faults were planted; none without.
	Faults []datasets.PlantedFault `json:"faults,omitempty"`
	// Skipped are the records of the source that were at fault; nil without.
	Skipped *datasets.Skipped `json:"skipped,omitempty"`
	// Selection counts the choice of data.select; nil without one.
	Selection *selection.Selection `json:"selection,omitempty"`
	// Devices say how data.devices divided the users; nil without.
	Devices *devices.Summary `json:"devices,omitempty"`
	// Sanitized counts the removals of sanitization; nil without it.
	Sanitized *datasets.Sanitized `json:"sanitized,omitempty"`
	// Disagreement counts the removals of the filter of two models; nil without it.
	Disagreement *datasets.Disagreement `json:"disagreement,omitempty"`
	// Stopping is the choice of early stopping; nil without it.
	Stopping *training.Stopping `json:"early_stopping,omitempty"`
	// StopAt is how near the training came to the utility at which it was to end; nil without.
	StopAt *training.Pursuit `json:"stop_at,omitempty"`
	// Recorded is what was kept of the devices' updates; nil where nothing was.
	Recorded *Recorded `json:"recorded,omitempty"`
	// Training says what was trained on what.
	Training Training `json:"training"`
	// Curve holds the measurements along the training, the last included.
	Curve []Point `json:"curve"`
}

// Outcome returns the outcome of an audit as JSON; false if it has not measured.
func (r *Report) Outcome(audit string) (json.RawMessage, bool) {
	if audit == Utility {
		return r.Utility, r.Utility != nil
	}
	if r.Audit == nil {
		return nil, false
	}
	return r.Audit.Outcomes.Get(audit)
}

// Recorded is what was kept of the devices' updates.
type Recorded struct {
	// Rounds that were recorded, and the updates of their devices.
	Rounds  int `json:"rounds"`
	Updates int `json:"updates"`
	// Layers of an update, and the number of values that they have together.
	Layers []updates.Layer `json:"layers"`
	Values int             `json:"values"`
	// Bytes of the updates in the store.
	Bytes int64 `json:"bytes"`
}

// BudgetUse is how far a privacy budget reached.
type BudgetUse struct {
	privacy.Budget
	// RoundsAllowed is the most that the budget allows; Privacy.Rounds of them
	// have run.
	RoundsAllowed int `json:"rounds_allowed"`
	// Stopped says that one more round would have passed the budget.
	Stopped bool `json:"stopped"`
}

// Training says what was trained on what.
type Training struct {
	TrainingParams
	// Epochs are the rounds in passes over the population.
	Epochs float64 `json:"epochs"`
	// Users, Examples and Words are those of the population.
	datasets.Counts
	// ReplacedExamples of them are canaries.
	ReplacedExamples int `json:"replaced_examples"`
}

// Audit holds the outcomes of the last model. Its JSON is an object with the outcomes
// under the names of their audits, and three lists: the canaries that were inserted;
// the never_inserted, drawn into no user's data; and the controls, held back on
// purpose.
type Audit struct {
	// Outcomes by the names of the audits.
	Outcomes encoding.Object
	canaries []Canary
}

// Canaries are those of the canaries block: those that were inserted, those that were
// not, and those held back.
func (a *Audit) Canaries() []Canary {
	var all []Canary
	for _, list := range roles {
		all = append(all, a.with(list.role)...)
	}
	return all
}

// roles are the lists of canaries.
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

// Canary is one canary: its places in the data and its outcomes. Its JSON has the
// outcomes beside the other fields.
type Canary struct {
	Role audits.Role `json:"-"`
	place
	Outcomes encoding.Object `json:"-"`
}

// Decode reads the members that an audit has set into a value of its type.
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
	// InsertedTimes is the chosen number of insertions; absent where probabilities say
	// how often.
	InsertedTimes int `json:"inserted_times,omitempty"`
	// Format names the canary's format, if there are several.
	Format string `json:"format,omitempty"`
	// Users are the sharers, before an iid shuffle; Holders the users that hold
	// copies after it; Insertions the copies.
	Users      int `json:"users"`
	Holders    int `json:"holders"`
	Insertions int `json:"insertions"`
}

// NewCanary is a canary where it was put, of which no audit has said anything yet.
func NewCanary(p datasets.Placement) (Canary, error) {
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
	c.UserProbability, c.ExampleProbability = configuration.UserProbability, configuration.ExampleProbability
	return c, err
}

// firstOutcomes are members that every canary has, null where no audit has set them:
// programs have relied on that since before other audits came.
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

// Point holds the measurements after a round. Its JSON has the metrics beside the other
// fields.
type Point struct {
	Round   int
	Utility json.RawMessage
	// Metrics of the audits, numbers by their names.
	Metrics encoding.Object
	// Privacy is the cost of the training up to then; nil if no privacy is claimed.
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

// Metric is a number that an audit has measured after the round.
func (p *Point) Metric(name string) (float64, bool) {
	raw, there := p.Metrics.Get(name)
	if !there {
		return 0, false
	}
	var value float64
	return value, json.Unmarshal(raw, &value) == nil
}
