package attributes

import (
	"fmt"

	"coalmine/internal/seeds"
	"coalmine/models/ranking"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/devices"
)

// Audit is that of attributes of users.
var Audit = observed.Describe[Fields, Outcome](audits.Description{
	Name: "attributes",
	Legend: "Attribute: the share of anonymous updates for which a network predicts the user's attribute, alone and jointly with the identity; in " +
		"brackets that of the most frequent attribute. Identity: the share whose user it names, likewise.",
	Limits:    limits,
	Kinds:     []tasks.Kind{Kind},
	Models:    audits.Anything,
	ByProgram: true,
	Measures: []audits.Measure{
		shown("attribute %", audits.Measure{Name: "attributes_accuracy", Of: share(alone), Text: audits.Of((*Outcome).besideMajority)}),
		shown("attribute, joint %", audits.Measure{Name: "attributes_joint_accuracy", Of: share(joint)}),
		{Name: "attributes_by_identity", Of: share(func(v *Outcome) *Accuracy { return v.ByIdentity })},
		{Name: "attributes_majority", Of: share(func(v *Outcome) *Accuracy { return v.Majority.Seen })},
		{Name: "attributes_unseen_accuracy", Of: share(func(v *Outcome) *Accuracy { return v.Attribute.orNone().Unseen })},
		{Name: "attributes_unseen_joint_accuracy", Of: share(func(v *Outcome) *Accuracy { return v.Joint.orNone().Unseen })},
		{Name: "attributes_unseen_majority", Of: share(func(v *Outcome) *Accuracy { return v.Majority.Unseen })},
		shown("identity %", audits.Measure{Name: "attributes_identity_accuracy", Of: share(func(v *Outcome) *Accuracy { return v.Identity.orNone().Identity })}),
		shown("identity, joint %", audits.Measure{Name: "attributes_joint_identity_accuracy", Of: share(func(v *Outcome) *Accuracy { return v.Joint.orNone().Identity })}),
	},
})

func alone(v *Outcome) *Accuracy { return v.Attribute.orNone().Attribute }
func joint(v *Outcome) *Accuracy { return v.Joint.orNone().Attribute }

func share(of func(*Outcome) *Accuracy) audits.Value {
	return audits.Of(func(v *Outcome) *float64 {
		if a := of(v); a != nil {
			return &a.Accuracy
		}
		return nil
	})
}

// shown adds a column of tables.
func shown(header string, m audits.Measure) audits.Measure {
	m.Header, m.Scale, m.Digits = header, audits.Percent, 1
	return m
}

// Outcome has the metrics of audits/attributes.
type Outcome struct {
	// Users that were looked at, by value.
	Users []Users `json:"users"`
	// Majority is the result of always saying the most frequent value.
	Majority Majority `json:"majority"`
	// Attribute is a network for the attribute alone, Identity for the users, Joint with a hidden layer for
	// both.
	Attribute *AttackOutcome `json:"attribute"`
	Identity  *AttackOutcome `json:"identity"`
	Joint     *AttackOutcome `json:"joint"`
	// ByIdentity is the accuracy of the attribute of the named user.
	ByIdentity *Accuracy `json:"by_identity"`
}

// Users with a value, and with updates of a shadow or an anonymous device.
type Users struct {
	Value     string `json:"value"`
	Shadow    int    `json:"shadow"`
	Anonymous int    `json:"anonymous"`
}

// Majority is the most frequent value of the shadow updates, and its accuracy.
type Majority struct {
	Value  string    `json:"value"`
	Seen   *Accuracy `json:"seen,omitempty"`
	Unseen *Accuracy `json:"unseen,omitempty"`
}

// AttackOutcome is the outcome of a network; nil for other tasks.
type AttackOutcome struct {
	// Epochs of training. The network is that after epoch Best.
	Epochs int `json:"epochs"`
	Best   int `json:"best"`
	// Attribute of users with a shadow device, Unseen of users without; nil without any.
	Attribute *Accuracy `json:"attribute,omitempty"`
	Unseen    *Accuracy `json:"unseen,omitempty"`
	Identity  *Accuracy `json:"identity,omitempty"`
}

// Accuracy is the share of anonymous updates with a right guess.
type Accuracy struct {
	Users   int `json:"users"`
	Updates int `json:"updates"`
	// Accuracy in [0, 1], with its 95% interval over users.
	Accuracy float64 `json:"accuracy"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	// FactorLow is the lower end of the interval of Accuracy over the accuracy of the most frequent value;
	// nil if that is 0, and of other accuracies.
	FactorLow *float64 `json:"factor_low,omitempty"`
}

func (a *Accuracy) percent() string {
	if a == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*a.Accuracy)
}

func (v *Outcome) besideMajority() string {
	return fmt.Sprintf("%s (%s)", alone(v).percent(), v.Majority.Seen.percent())
}

func (o *AttackOutcome) orNone() *AttackOutcome {
	if o == nil {
		return new(AttackOutcome)
	}
	return o
}

func (v *Outcome) Note(*audits.Cell) string {
	attribute, identity, joint := v.Attribute.orNone(), v.Identity.orNone(), v.Joint.orNone()
	note := fmt.Sprintf("attributes: attribute %s%% alone, %s%% jointly, %s%% by the user who was named, %s%% by always saying %q; identity %s%% alone, %s%% jointly",
		attribute.Attribute.percent(), joint.Attribute.percent(), v.ByIdentity.percent(), v.Majority.Seen.percent(), v.Majority.Value,
		identity.Identity.percent(), joint.Identity.percent())
	if attribute.Unseen != nil {
		note += fmt.Sprintf("; of users never seen: %s%% alone (%.1f to %.1f), %s%% jointly, %s%% by always saying the same",
			attribute.Unseen.percent(), 100*attribute.Unseen.Low, 100*attribute.Unseen.High, joint.Unseen.percent(), v.Majority.Unseen.percent())
	}
	for _, o := range []*AttackOutcome{attribute, identity, joint} {
		if o.Epochs > 0 && o.Epochs-o.Best < patience {
			return note + audits.LastEpoch(o.Epochs)
		}
	}
	return note
}

var limits = []audits.Limit{audits.LimitOf[float64]{
	Name:  "attributes",
	Doc:   "Share of anonymous updates whose attribute is told right, of known and unseen users, alone and jointly with the identity, by the lower ends of 95% intervals over users.",
	Range: "[1,1e9]", Unit: "times that of the most frequent value",
	Breaches:    audits.Judged("attributes", func(v *Outcome, limit float64) []string { return judge(v, limit).Breaches() }),
	Unjudged:    audits.NotJudged(func(v *Outcome, limit float64) []string { return judge(v, limit).Unjudged() }),
	FalseAlarms: falseAlarms,
}.Limit()}

func judge(v *Outcome, limit float64) *audits.Gate {
	alone, joint := v.Attribute.orNone(), v.Joint.orNone()
	g := audits.Gate{Name: "attributes", Limit: limit}
	for _, x := range []struct {
		what             string
		found, mostOften *Accuracy
	}{
		{"the accuracy of the attribute", alone.Attribute, v.Majority.Seen},
		{"the accuracy of the attribute, jointly,", joint.Attribute, v.Majority.Seen},
		{"the accuracy of the attribute of unseen users", alone.Unseen, v.Majority.Unseen},
		{"the accuracy of the attribute of unseen users, jointly,", joint.Unseen, v.Majority.Unseen},
	} {
		if x.found != nil && x.found.FactorLow != nil {
			chance := x.mostOften.Accuracy
			g.Factor(x.what, x.found.Users, audits.Bounded{Value: x.found.Accuracy, Low: *x.found.FactorLow * chance, High: x.found.High}, chance)
		}
	}
	return &g
}

func falseAlarms(s *audits.Setting, limit float64) []audits.FalseAlarm {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return nil
	}
	numbers := 2
	if s.Devices != nil && s.Devices.Unseen.Float64() > 0 {
		numbers = 4
	}
	return audits.FactorAlarms("attributes", limit, numbers, "accuracies", s.Owners(), 1/float64(len(f.Attributes.Values)))
}

// score sets the accuracies of a task's guesses.
func (w *world) score(o *AttackOutcome, task int, guesses []int) {
	right := func(row int) bool { return guesses[row] == w.anonymous.labels[task][row] }
	if task == identity {
		o.Identity = w.tally(devices.Seen, right).accuracy()
		return
	}
	o.Attribute, o.Unseen = w.tally(devices.Seen, right).against(), w.tally(devices.Unseen, right).against()
}

// byIdentity guesses the value of the user that was named.
func (w *world) byIdentity(identities []int) *Accuracy {
	return w.tally(devices.Seen, func(row int) bool {
		return w.values[w.named[identities[row]]] == w.anonymous.labels[attribute][row]
	}).accuracy()
}

func (w *world) isMostFrequent(row int) bool {
	return w.anonymous.labels[attribute][row] == w.mostFrequent
}

func (w *world) majority() Majority {
	return Majority{
		Value: w.Values[w.mostFrequent].Value,
		Seen:  w.tally(devices.Seen, w.isMostFrequent).accuracy(), Unseen: w.tally(devices.Unseen, w.isMostFrequent).accuracy(),
	}
}

func (w *world) usersByValue() []Users {
	all := make([]Users, len(w.Values))
	for i, v := range w.Values {
		all[i].Value = v.Value
	}
	for _, user := range w.shadow.Users() {
		all[w.values[user]].Shadow++
	}
	for _, user := range w.anonymous.Users() {
		all[w.values[user]].Anonymous++
	}
	return all
}

// tally counts updates by user; most are those of the most frequent value.
type tally struct {
	seed              uint64
	right, most, sent []float64
}

// tally counts the anonymous updates of a set by user, in the order of their first.
func (w *world) tally(set devices.Set, right func(row int) bool) *tally {
	t, number := &tally{seed: w.Seed}, map[int]int{}
	for row, o := range w.anonymous.Of {
		if o.Set != set {
			continue
		}
		i, known := number[o.User]
		if !known {
			i = len(t.sent)
			number[o.User] = i
			t.right, t.most, t.sent = append(t.right, 0), append(t.most, 0), append(t.sent, 0)
		}
		t.sent[i]++
		if right(row) {
			t.right[i]++
		}
		if w.isMostFrequent(row) {
			t.most[i]++
		}
	}
	return t
}

// accuracy is the share of right updates; nil of none.
func (t *tally) accuracy() *Accuracy {
	if len(t.sent) == 0 {
		return nil
	}
	bounds := Interval(t.seed, t.right, t.sent, t.sent)
	return &Accuracy{Users: len(t.sent), Updates: int(sum(t.sent)), Accuracy: sum(t.right) / sum(t.sent), Low: bounds.Low, High: bounds.High}
}

// against adds the comparison with always saying the most frequent value.
func (t *tally) against() *Accuracy {
	a := t.accuracy()
	if a != nil && sum(t.most) > 0 {
		a.FactorLow = new(Interval(t.seed, t.right, t.most, t.sent).Low)
	}
	return a
}

const resamples = 1000

// Interval is the interval over users of the ratio of two counts of updates. The unseen user has sent the
// mean number of updates, all of which count below.
func Interval(seed uint64, hits, below, sent []float64) ranking.Interval {
	r := ranking.Resampling{Stream: seeds.Stream(seed, seeds.AttributeInterval), Groups: []int{len(hits)}, Resamples: resamples}
	mean := ranking.Mean(sent)
	return r.Interval(audits.Confidence, ranking.OfRatio(hits, below, 0, mean, mean))
}

func sum(counts []float64) (total float64) {
	for _, n := range counts {
		total += n
	}
	return total
}
