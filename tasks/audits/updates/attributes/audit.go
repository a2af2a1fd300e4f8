package attributes

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
)

var Audit = observed.Describe[Fields, Outcome](audits.Description{
	Name:      "attributes",
	Limits:    limits,
	Power:     audits.Powered(power),
	Kinds:     []tasks.Kind{Kind},
	Models:    audits.Anything,
	ByProgram: true,
	Measures: []audits.Measure{
		shown("attribute %", audits.Measure{Name: "attributes_accuracy", Of: share(func(v *Outcome) *Accuracy { return v.Attribute.Attribute }), Text: audits.Of((*Outcome).besideMajority), Doc: "share of anonymous updates whose user's attribute a network predicts; in brackets that of the most frequent attribute"}),
		shown("attribute, joint %", audits.Measure{Name: "attributes_joint_accuracy", Of: share(func(v *Outcome) *Accuracy { return v.Joint.Attribute }), Doc: "share of anonymous updates whose user's attribute a network predicts that was trained for attribute and identity"}),
		{Name: "attributes_by_identity", Of: share(func(v *Outcome) *Accuracy { return v.ByIdentity }), Doc: "share of anonymous updates with the attribute of the user that the network for identity names"},
		{Name: "attributes_majority", Of: share(func(v *Outcome) *Accuracy { return v.Majority.Seen }), Doc: "share of anonymous updates with the most frequent attribute of the shadow updates"},
		{Name: "attributes_unseen_accuracy", Of: share(func(v *Outcome) *Accuracy { return v.Attribute.Unseen }), Doc: "attributes_accuracy for users without shadow updates"},
		{Name: "attributes_unseen_joint_accuracy", Of: share(func(v *Outcome) *Accuracy { return v.Joint.Unseen }), Doc: "attributes_joint_accuracy for users without shadow updates"},
		{Name: "attributes_unseen_majority", Of: share(func(v *Outcome) *Accuracy { return v.Majority.Unseen }), Doc: "attributes_majority for users without shadow updates"},
		shown("identity %", audits.Measure{Name: "attributes_identity_accuracy", Of: share(func(v *Outcome) *Accuracy { return v.Identity.Identity }), Doc: "share of anonymous updates whose user a network names"}),
		shown("identity, joint %", audits.Measure{Name: "attributes_joint_identity_accuracy", Of: share(func(v *Outcome) *Accuracy { return v.Joint.Identity }), Doc: "share of anonymous updates whose user a network names that was trained for attribute and identity"}),
	},
})

type Fields struct {
	// Infers an attribute of users from recorded updates, alone and jointly with their identity, by a
	// network trained on shadow devices. Needs data.devices and training.record.
	Attributes *Block `json:"attributes,omitempty" source:"Orekondy et al. 2018, section 6.1.3"`
}

type Block struct {
	// Values of the attribute, at least two. Users without a value are left out.
	Values []Value `json:"values" required:"true"`
	observed.ViewFields
	Network
}

// Network is the fields of the network and its training, and parameters of the task.
type Network struct {
	// Units of the hidden layer.
	Units int `json:"units" default:"128" range:"[1,4096]" source:"Orekondy et al. 2018, section 4.3"`
	// Maximum number of epochs: training ends when the loss on a tenth of the shadow updates has not fallen for ten.
	Epochs int `json:"epochs" default:"300" range:"[1,10000]" unit:"epochs"`
	// Updates in a step.
	Batch int `json:"batch" default:"32" range:"[1,65536]" unit:"updates"`
	// Learning rate of SGD with momentum 0.9.
	LearningRate float64 `json:"learning_rate" default:"0.01" range:"(0,1000]" source:"Orekondy et al. 2018, section 4.3"`
	// Maximum number of updates of shadow and of anonymous devices, drawn at random; a task holds all in memory.
	Updates int `json:"updates" default:"2000" range:"[10,100000]" unit:"updates"`
}

const block = "audit.attributes"

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	observed.CheckRecorded(s, block, f.Attributes.Layers, fail)
	observed.CheckDevices(s, block, fail)
	for _, problem := range checkValues(f.Attributes.Values) {
		fail([]string{block + ".values"}, "%s", problem)
	}
	observed.CheckOwned(s, block, fail)
}

func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	p := f.Attributes
	inputs := append(observed.Inputs(b.Recorded(), b.Devices()), observed.NamesInputs(b)...)
	return b.Node(Kind, "attributes of users", Params{Seed: b.Setting().Seed, View: p.View(b.Setting()), Values: p.Values, Network: p.Network}, inputs...)
}

func (f *Fields) Work(s *audits.Setting) float64 {
	return s.UpdatesWork(f.Attributes.Units, float64(f.Attributes.Epochs)*float64(f.Attributes.Updates), audits.MomentumWork/float64(f.Attributes.Batch))
}

// Value is a value of an attribute, and the users who have it.
type Value struct {
	// Name of the value.
	Value string `json:"value" required:"true"`
	// Names as in the source, or patterns with * (any text), ? (any character) and [0-9]. One or a list.
	Users []string `json:"users" required:"true"`
}

// checkValues describes mistakes within the values.
func checkValues(values []Value) (problems []string) {
	names := map[string]bool{}
	for _, v := range values {
		if names[v.Value] {
			problems = append(problems, fmt.Sprintf("has the value %q twice", v.Value))
		}
		names[v.Value] = true
		if len(v.Users) == 0 {
			problems = append(problems, fmt.Sprintf("gives the value %q to nobody; expected names of users, or patterns", v.Value))
		}
		problems = append(problems, observed.Patterns(v.Users).Check()...)
	}
	if len(values) < 2 {
		problems = append(problems, fmt.Sprintf("has %d values; expected at least 2 to tell apart", len(values)))
	}
	return problems
}

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

type Outcome struct {
	// Users are the measured users, by value.
	Users []Users `json:"users"`
	// Majority is the result of always guessing the most frequent value.
	Majority Majority `json:"majority"`
	// Attribute is a network for only the attribute, Identity for the users, Joint for both, with a hidden
	// layer.
	Attribute AttackOutcome `json:"attribute"`
	Identity  AttackOutcome `json:"identity"`
	Joint     AttackOutcome `json:"joint"`
	// ByIdentity is the accuracy of the attribute of the named user.
	ByIdentity *Accuracy `json:"by_identity"`
}

// Users counts users with a value, and with updates of a shadow or an anonymous device.
type Users struct {
	Value     string `json:"value"`
	Shadow    int    `json:"shadow" doc:"number of users with a shadow device"`
	Anonymous int    `json:"anonymous" doc:"number of users with an anonymous device"`
}

// Majority is the most frequent value of the shadow updates, and its accuracy.
type Majority struct {
	Value  string    `json:"value"`
	Seen   *Accuracy `json:"seen,omitempty" doc:"for users with a shadow device"`
	Unseen *Accuracy `json:"unseen,omitempty" doc:"for users without a shadow device"`
}

// AttackOutcome is the outcome of a network. Tasks that it was not trained on are nil.
type AttackOutcome struct {
	// Epochs is the number of epochs of training. The network is the one after epoch Best.
	Epochs int `json:"epochs" doc:"completed epochs of training"`
	Best   int `json:"best" doc:"epoch of the lowest validation loss, whose network the attack keeps"`
	// Attribute is for users with a shadow device, Unseen for users without; nil without such users.
	Attribute *Accuracy `json:"attribute,omitempty" doc:"of the attribute for users with a shadow device"`
	Unseen    *Accuracy `json:"unseen,omitempty" doc:"of the attribute for users without a shadow device"`
	Identity  *Accuracy `json:"identity,omitempty" doc:"of the identity of users with a shadow device"`
}

// Accuracy is the share of anonymous updates with a right guess.
type Accuracy struct {
	Users   int `json:"users" doc:"number of users"`
	Updates int `json:"updates" doc:"number of their updates"`
	// Accuracy is in [0, 1], with its 95% interval over users.
	Accuracy float64 `json:"accuracy" doc:"accuracy over updates, from 0 to 1"`
	Low      float64 `json:"low" doc:"lower end of the 95% interval over users of the accuracy"`
	High     float64 `json:"high" doc:"upper end of the 95% interval over users of the accuracy"`
	// FactorLow is the lower end of the interval of Accuracy over the accuracy of the most frequent value;
	// nil if that is 0, and for other accuracies.
	FactorLow *float64 `json:"factor_low,omitempty" doc:"lower end of the interval of the ratio of the accuracy to that of the most frequent value"`
}

func (a *Accuracy) percent() string {
	if a == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*a.Accuracy)
}

func (v *Outcome) besideMajority() string {
	return fmt.Sprintf("%s (%s)", v.Attribute.Attribute.percent(), v.Majority.Seen.percent())
}

func (v *Outcome) Note(*audits.Cell) string {
	alone, joint := &v.Attribute, &v.Joint
	note := fmt.Sprintf("attributes: attribute %s%% alone, %s%% jointly, %s%% by the user who was named, %s%% by always saying %q; identity %s%% alone, %s%% jointly",
		alone.Attribute.percent(), joint.Attribute.percent(), v.ByIdentity.percent(), v.Majority.Seen.percent(), v.Majority.Value,
		v.Identity.Identity.percent(), joint.Identity.percent())
	if alone.Unseen != nil {
		note += fmt.Sprintf("; of users never seen: %s%% alone (%.1f to %.1f), %s%% jointly, %s%% by always saying the same",
			alone.Unseen.percent(), 100*alone.Unseen.Low, 100*alone.Unseen.High, joint.Unseen.percent(), v.Majority.Unseen.percent())
	}
	for _, o := range []*AttackOutcome{alone, &v.Identity, joint} {
		if o.Epochs > 0 && o.Epochs-o.Best < patience {
			note += audits.LastEpoch(o.Epochs)
			break
		}
	}
	return note + audits.UsersAlone + audits.Replicated
}

var limits = []audits.Limit{audits.LimitOf[float64]{
	Name:  "attributes",
	Doc:   "Share of anonymous updates whose attribute is told right, of known and unseen users, alone and jointly with the identity, by lower 95% bounds over users.",
	Range: "[1,1e9]", Unit: "times that of the most frequent value",
	Breaches: audits.Judged("attributes", func(v *Outcome, limit float64) []string { return judge(v, limit).Breaches() }),
	Unjudged: audits.NotJudged(func(v *Outcome, limit float64) []string { return judge(v, limit).Unjudged() }),
	FalseAlarms: audits.Alarms(func(f *Fields, s *audits.Setting, limit float64) []audits.FalseAlarm {
		numbers := 2
		if s.Devices != nil && s.Devices.Unseen.Float64() > 0 {
			numbers = 4
		}
		return audits.FactorAlarms("attributes", limit, numbers, "accuracies", s.Owners(), 1/float64(len(f.Attributes.Values)))
	}),
}.Limit()}

func judge(v *Outcome, limit float64) *audits.Gate {
	g := audits.Gate{Name: "attributes", Limit: limit}
	for _, x := range []struct {
		label            string
		found, mostOften *Accuracy
	}{
		{"the accuracy of the attribute", v.Attribute.Attribute, v.Majority.Seen},
		{"the accuracy of the attribute, jointly,", v.Joint.Attribute, v.Majority.Seen},
		{"the accuracy of the attribute of unseen users", v.Attribute.Unseen, v.Majority.Unseen},
		{"the accuracy of the attribute of unseen users, jointly,", v.Joint.Unseen, v.Majority.Unseen},
	} {
		if x.found != nil && x.found.FactorLow != nil {
			chance := x.mostOften.Accuracy
			g.Factor(x.label, x.found.Users, audits.Interval{Value: x.found.Accuracy, Low: *x.found.FactorLow * chance, High: x.found.High}, chance)
		}
	}
	return &g
}

// power returns the power of the accuracy for users with a shadow device, if the value of each is known with
// a probability and otherwise guessed, for all updates alike. Values are equally frequent. Before the
// training all such users count as having a value.
func power(f *Fields, s *audits.Setting, v *Outcome) []audits.Statement {
	users, chance := 0, 1/float64(len(f.Attributes.Values))
	if v != nil && v.Attribute.Attribute != nil {
		users = v.Attribute.Attribute.Users
	} else if v == nil && s.Data != nil {
		users = s.Data.Seen
	}
	if users == 0 {
		return nil
	}
	return []audits.Statement{{
		Finds: "the lower bound of the accuracy is above that of the most frequent value", Limit: "attributes",
		Leak:    audits.Leak{Name: "share", Means: "the value of each user is known, and not guessed, with the probability", Default: 0.2, Max: 1},
		Sizes:   []audits.Size{{Unit: "user", N: users}},
		None:    strings.TrimPrefix(audits.TooFewToTell(users, chance), ", "),
		Nothing: audits.From((*Outcome).nothing),
		Power: func(q audits.Question) float64 {
			factor := q.LimitOr(1)
			if q.Sizes[0] < audits.MinAbove(factor*chance) {
				return 0
			}
			return accuracyPower(q.Leak+(1-q.Leak)*chance, chance, factor, q.Sizes[0])
		},
	}}
}

func (v *Outcome) nothing() bool {
	known := 0
	for _, a := range []*Accuracy{v.Attribute.Attribute, v.Joint.Attribute} {
		if a != nil && a.FactorLow != nil {
			known++
			if *a.FactorLow > 1 {
				return false
			}
		}
	}
	return known > 0
}

// accuracyPower returns the probability that the lower end of an accuracy over n users is above a factor
// times that of the most frequent value, by the normal approximation of the difference and of its resamples.
// The unseen user counts as a wrong guess for a user with the most frequent value.
func accuracyPower(accuracy, chance, factor float64, users int) float64 {
	n := float64(users)
	mean := accuracy - float64(factor*chance)
	variance := accuracy*(1-accuracy) + float64(factor*factor*chance*(1-chance))
	resampled := (n*mean - factor) / (n + 1)
	spread := (n*(variance+float64(mean*mean))+float64(factor*factor))/(n+1) - float64(resampled*resampled)
	low := resampled - float64(mathext.NormalQuantile((1+audits.Confidence)/2)*math.Sqrt(spread/(n+2)))
	return distuv.UnitNormal.CDF(low / math.Sqrt(variance*n) * (n + 1))
}
