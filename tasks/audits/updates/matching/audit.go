package matching

import (
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/pairs"
)

var Audit = observed.Describe[Fields, Outcome](audits.Description{
	Name:       "matching",
	Limits:     limits,
	Power:      power,
	Kinds:      []tasks.Kind{Kind},
	Models:     audits.Anything,
	ByProgram:  true,
	AttackRows: audits.From((*Outcome).attackRows),
	Measures: slices.Concat(
		audits.Within(func(v *Outcome) *Measurements { return v.Anonymous },
			audits.Measure{Name: "matching_ap", Of: audits.Of(func(m *Measurements) audits.Interval { return m.Network.AP }), Header: "matching AP", Scale: audits.Percent, Digits: 1, Doc: "average precision with which a network, trained on the adversary's updates, finds pairs of anonymous updates of one user, half of all pairs; 50% by chance"},
			audits.Measure{Name: "matching_cosine_ap", Of: audits.Of((*Measurements).byCosine), Doc: "average precision of the same pairs by the cosine of updates"},
		),
		audits.Within(func(v *Outcome) *Measurements { return v.Shadow },
			audits.Measure{Name: "matching_shadow_ap", Of: audits.Of((*Measurements).byNetwork), Header: "with shadow AP", Scale: audits.Percent, Digits: 1, Doc: "average precision of pairs of an anonymous update and one of a shadow device, which identify the user, by the network"},
			audits.Measure{Name: "matching_shadow_cosine_ap", Of: audits.Of((*Measurements).byCosine), Doc: "matching_shadow_ap by the cosine of updates"},
		),
		audits.Within(func(v *Outcome) *Measurements { return v.Seen },
			audits.Measure{Name: "matching_seen_ap", Of: audits.Of((*Measurements).byNetwork), Doc: "matching_ap for users in the training of the network"},
			audits.Measure{Name: "matching_seen_cosine_ap", Of: audits.Of((*Measurements).byCosine), Doc: "matching_seen_ap by the cosine of updates"},
		),
		audits.Within(func(v *Outcome) *Measurements { return v.Unseen },
			audits.Measure{Name: "matching_unseen_ap", Of: audits.Of((*Measurements).byNetwork), Header: "unseen AP", Scale: audits.Percent, Digits: 1, Doc: "matching_ap for users unknown to the adversary"},
			audits.Measure{Name: "matching_unseen_cosine_ap", Of: audits.Of((*Measurements).byCosine), Doc: "matching_unseen_ap by the cosine of updates"},
		),
		pairs.Spread("matching", func(v *Outcome) *pairs.Learned { return &v.Learned }),
	),
})

type Fields struct {
	// Trains a Siamese network on pairs of shadow devices' recorded updates, to tell pairs of anonymous
	// updates of one user. Needs data.devices and training.record.
	Matching *pairs.Fields `json:"matching,omitempty" also:"siamese" source:"Orekondy et al. 2018, sections 4.3 and 6.1.2"`
}

const path = "audit.matching"

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	observed.CheckRecorded(s, path, f.Matching.Layers, fail)
	observed.CheckDevices(s, path, fail)
}

func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	return b.Node(Kind, "matching updates", f.Matching.Params(b.Setting()), observed.Inputs(b.Recorded(), b.Devices())...)
}

func (f *Fields) Work(s *audits.Setting) float64 { return f.Matching.Work(s) }

type Outcome struct {
	Learned pairs.Learned `json:"learned" doc:"of the network"`
	// Anonymous is about pairs of seen and unseen users.
	Anonymous *Measurements `json:"anonymous" doc:"over pairs of anonymous updates"`
	// Shadow is about pairs of an update of a shadow device and an anonymous one, which identify a known
	// user; nil without such pairs.
	Shadow *Measurements `json:"shadow,omitempty" doc:"over pairs of a shadow update and an anonymous one"`
	// Seen and Unseen are about pairs of anonymous updates of only such users; nil without such pairs, or if
	// all users are in one set.
	Seen   *Measurements `json:"seen,omitempty" doc:"over pairs of anonymous updates of users that the network learned from"`
	Unseen *Measurements `json:"unseen,omitempty" doc:"over pairs of anonymous updates of users that the network did not learn from"`
}

// Measurements are of the same pairs by two scores.
type Measurements struct {
	// Network is trained. Cosine, of updates minus the mean of their round, is not.
	Network pairs.Measurement `json:"network" doc:"by the network"`
	Cosine  pairs.Measurement `json:"cosine" doc:"by the cosine"`
}

func (m *Measurements) byNetwork() float64 { return m.Network.AP.Value }
func (m *Measurements) byCosine() float64  { return m.Cosine.AP.Value }

func (v *Outcome) Note(*audits.Cell) string {
	note := fmt.Sprintf("matching: learned from %s, %v", readable.Count(v.Learned.Users, "user"), &v.Learned)
	for _, x := range v.all() {
		note += fmt.Sprintf("; %s: AP %s, by cosine alone %.1f%s%s", x.label, x.Network.AP.Percent(), 100*x.byCosine(), x.baseline(), x.Network.Few())
	}
	return note + v.Learned.Chance(path)
}

type named struct {
	label string
	*Measurements
}

// all returns the measurements, without missing ones.
func (v *Outcome) all() []named {
	all := []named{{"anonymous", v.Anonymous}, {"shadow with anonymous", v.Shadow}, {"seen users", v.Seen}, {"unseen users", v.Unseen}}
	return lists.Filter(all, func(x named) bool { return x.Measurements != nil })
}

func (v *Outcome) attackRows() (rows []audits.Attack) {
	for _, x := range v.all() {
		of := "pairs of updates: " + x.label
		network := x.Network.Row("Siamese network", of)
		if x.Measurements == v.Anonymous {
			network = v.Learned.Row(network)
		}
		rows = append(rows, network, x.Cosine.Row("cosine", of))
	}
	return rows
}

// baseline returns a note about a cosine whose interval is not below the network's.
func (m *Measurements) baseline() string {
	is := ""
	switch n, c := &m.Network.AP, &m.Cosine.AP; {
	case c.Low > n.High:
		is = "is better"
	case c.Value > n.Value:
		is = "is higher, but the intervals overlap"
	case c.Value == n.Value:
		is = "is as good"
	case c.High >= n.Low:
		is = "has an overlapping interval"
	default:
		return ""
	}
	return fmt.Sprintf(" (%s), which needs no training and %s", m.Cosine.AP.Ends(), is)
}

var limits = pairs.Limit("matching", 2, "scores",
	"Average precision of pairs of a shadow and an anonymous update, the better of network and cosine, by its lower 95% bound over users.",
	func(v *Outcome) (label string, m *pairs.Measurement) {
		if v.Shadow == nil {
			return "", nil
		}
		by, best := "the network", &v.Shadow.Network
		if other := &v.Shadow.Cosine; other.AP.Low > best.AP.Low {
			by, best = "the cosine", other
		}
		return "the AP of pairs with a shadow device, told by " + by + ",", best
	})

// power returns the power for pairs with a shadow device.
var power = pairs.Power("matching", "pairs with a shadow device",
	func(s *audits.Setting) int { f, _ := audits.FieldsOf[*Fields](s); return f.Matching.Pairs },
	func(s *audits.Setting) int {
		if s.Data == nil {
			return 0
		}
		return s.Data.Seen
	},
	func(v *Outcome) []*pairs.Measurement {
		if v.Shadow == nil {
			return nil
		}
		return []*pairs.Measurement{&v.Shadow.Network, &v.Shadow.Cosine}
	})
