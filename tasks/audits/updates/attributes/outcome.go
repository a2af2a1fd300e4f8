package attributes

import (
	"fmt"

	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Audit is that of attributes of users.
var Audit = audits.Description{
	Name: "attributes",
	Legend: "Attribute: the share of anonymous updates of which a network tells the user's attribute, alone and jointly with the identity; " +
		"in brackets by always saying the most frequent. Identity: the share whose user is named, likewise.",
	New:       func() audits.Fields { return new(Fields) },
	Limits:    limits,
	Kinds:     []tasks.Kind{Kind},
	Models:    audits.Anything,
	ByProgram: true,
	AtEnd:     true,
	Pairs:     audits.EverySecret,
	Outcome:   func() audits.Outcome { return new(Outcome) },
	Measures: []audits.Measure{
		{
			Name: "attributes_accuracy", Of: audits.Of(func(v *Outcome) *float64 { return v.Attribute.orNone().Attribute.share() }),
			Header: "attribute %", Text: audits.Of((*Outcome).besideMajority), Scale: audits.Percent, Digits: 1,
		},
		{
			Name: "attributes_joint_accuracy", Of: audits.Of(func(v *Outcome) *float64 { return v.Joint.orNone().Attribute.share() }),
			Header: "attribute, joint %", Scale: audits.Percent, Digits: 1,
		},
		{Name: "attributes_by_identity", Of: audits.Of(func(v *Outcome) *float64 { return v.ByIdentity.share() })},
		{Name: "attributes_majority", Of: audits.Of(func(v *Outcome) *float64 { return v.Majority.Seen.share() })},
		{Name: "attributes_unseen_accuracy", Of: audits.Of(func(v *Outcome) *float64 { return v.Attribute.orNone().Unseen.share() })},
		{Name: "attributes_unseen_joint_accuracy", Of: audits.Of(func(v *Outcome) *float64 { return v.Joint.orNone().Unseen.share() })},
		{Name: "attributes_unseen_majority", Of: audits.Of(func(v *Outcome) *float64 { return v.Majority.Unseen.share() })},
		{
			Name: "attributes_identity_accuracy", Of: audits.Of(func(v *Outcome) *float64 { return v.Identity.orNone().Identity.share() }),
			Header: "identity %", Scale: audits.Percent, Digits: 1,
		},
		{
			Name: "attributes_joint_identity_accuracy", Of: audits.Of(func(v *Outcome) *float64 { return v.Joint.orNone().Identity.share() }),
			Header: "identity, joint %", Scale: audits.Percent, Digits: 1,
		},
	},
}

// Outcome is the outcome: the metrics of audits/attributes.
type Outcome struct {
	// Users are those looked at, by value.
	Users []Users `json:"users"`
	// Majority is what always saying the most frequent value gives.
	Majority Majority `json:"majority"`
	// Attribute is a network for the attribute alone, Identity one for the users, Joint one
	// with a hidden layer for both.
	Attribute *AttackOutcome `json:"attribute"`
	Identity  *AttackOutcome `json:"identity"`
	Joint     *AttackOutcome `json:"joint"`
	// ByIdentity is the attribute of the user that the network for the users names: what
	// needs no attribute of an update at all.
	ByIdentity *Accuracy `json:"by_identity"`
}

// Users is how many users have a value, of those with updates of a shadow and of an anonymous
// device.
type Users struct {
	Value     string `json:"value"`
	Shadow    int    `json:"shadow"`
	Anonymous int    `json:"anonymous"`
}

// Majority is the most frequent value of the shadow updates, and how often it is right.
type Majority struct {
	Value  string    `json:"value"`
	Seen   *Accuracy `json:"seen,omitempty"`
	Unseen *Accuracy `json:"unseen,omitempty"`
}

// AttackOutcome is what a network gave. What it has no task for is nil.
type AttackOutcome struct {
	// Epochs were made; the network is that after epoch Best.
	Epochs int `json:"epochs"`
	Best   int `json:"best"`
	// Attribute is that of users with a shadow device, Unseen that of users whom the
	// adversary does not know; nil where there are none.
	Attribute *Accuracy `json:"attribute,omitempty"`
	Unseen    *Accuracy `json:"unseen,omitempty"`
	Identity  *Accuracy `json:"identity,omitempty"`
}

// Accuracy is the share of anonymous updates that are told right, top-1.
type Accuracy struct {
	Users   int `json:"users"`
	Updates int `json:"updates"`
	// Accuracy is in [0, 1]; Low and High are its 95% interval over users.
	Accuracy float64 `json:"accuracy"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	// FactorLow is the lower end of the interval of how many times as often the attribute is told
	// as by always saying the most frequent value; nil where that is never right, and of other
	// accuracies.
	FactorLow *float64 `json:"factor_low,omitempty"`
}

func (a *Accuracy) percent() string {
	if a == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*a.Accuracy)
}

func (a *Accuracy) share() *float64 {
	if a == nil {
		return nil
	}
	return &a.Accuracy
}

// besideMajority is the accuracy of the attribute, and that of the most frequent value.
func (v *Outcome) besideMajority() string {
	return fmt.Sprintf("%s (%s)", v.Attribute.orNone().Attribute.percent(), v.Majority.Seen.percent())
}

// orNone is an empty outcome for nil.
func (o *AttackOutcome) orNone() *AttackOutcome {
	if o == nil {
		return new(AttackOutcome)
	}
	return o
}

// Note implements audits.Noter.
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
