package matching

import (
	"fmt"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/pairs"
)

// Audit is that of pairs of updates.
var Audit = audits.Description{
	Name: "matching",
	Legend: "Matching AP: how well a network that was trained on the adversary's own updates tells pairs of anonymous updates of one user, half of all pairs; 50 by chance. " +
		"With shadow: of pairs of an anonymous update and a shadow device's; anonymous updates of one user are of one device and its examples, so that only these tell the user. " +
		"Unseen AP: anonymous pairs of users whom the adversary does not know.",
	New:       func() audits.Fields { return new(Fields) },
	Limits:    limits,
	Kinds:     []tasks.Kind{Kind},
	Models:    audits.Anything,
	ByProgram: true,
	AtEnd:     true,
	Pairs:     audits.EverySecret,
	Outcome:   func() audits.Outcome { return new(Outcome) },
	Measures: slices.Concat(
		audits.Within(func(v *Outcome) *Told { return v.Anonymous },
			audits.Measure{Name: "matching_ap", Of: audits.Of(func(t *Told) audits.Bounded { return t.Network.AP }), Header: "matching AP", Scale: audits.Percent, Digits: 1},
			audits.Measure{Name: "matching_cosine_ap", Of: audits.Of((*Told).byCosine)},
		),
		audits.Within(func(v *Outcome) *Told { return v.Shadow },
			audits.Measure{Name: "matching_shadow_ap", Of: audits.Of((*Told).byNetwork), Header: "with shadow AP", Scale: audits.Percent, Digits: 1},
			audits.Measure{Name: "matching_shadow_cosine_ap", Of: audits.Of((*Told).byCosine)},
		),
		audits.Within(func(v *Outcome) *Told { return v.Seen },
			audits.Measure{Name: "matching_seen_ap", Of: audits.Of((*Told).byNetwork)},
			audits.Measure{Name: "matching_seen_cosine_ap", Of: audits.Of((*Told).byCosine)},
		),
		audits.Within(func(v *Outcome) *Told { return v.Unseen },
			audits.Measure{Name: "matching_unseen_ap", Of: audits.Of((*Told).byNetwork), Header: "unseen AP", Scale: audits.Percent, Digits: 1},
			audits.Measure{Name: "matching_unseen_cosine_ap", Of: audits.Of((*Told).byCosine)},
		),
	),
}

// Outcome is the outcome: the metrics of audits/matching.
type Outcome struct {
	Learned pairs.Learned `json:"learned"`
	// Anonymous pairs are of anonymous updates alone, of seen and unseen users.
	Anonymous *Told `json:"anonymous"`
	// Shadow pairs are of an update of a shadow device and an anonymous one: whether a user
	// whom the adversary knows has sent it. nil where there are none.
	Shadow *Told `json:"shadow,omitempty"`
	// Seen and Unseen are the anonymous pairs of users of that sort alone; nil where there
	// are none, and where all users are of one sort.
	Seen   *Told `json:"seen,omitempty"`
	Unseen *Told `json:"unseen,omitempty"`
}

// Told is how well pairs are told.
type Told struct {
	// Network is the trained one; Cosine needs no training: that of what the updates differ
	// by from the mean update of their rounds.
	Network pairs.Measurement `json:"network"`
	Cosine  pairs.Measurement `json:"cosine"`
}

func (t *Told) byNetwork() float64 { return t.Network.AP.Value }
func (t *Told) byCosine() float64  { return t.Cosine.AP.Value }

// Note implements audits.Noter.
func (v *Outcome) Note(*audits.Cell) string {
	note := fmt.Sprintf("matching: learned from %d users, %v", v.Learned.Users, &v.Learned)
	for _, x := range v.all() {
		if x.told != nil {
			note += fmt.Sprintf("; %s: AP %s, by cosine alone %.1f%s%s", x.what, x.told.Network.AP.Percent(), 100*x.told.byCosine(), x.told.baseline(),
				audits.TooFewToTell(x.told.Network.Users, audits.PairChance))
		}
	}
	return note + v.Learned.Chance(path)
}

// named is a measurement with its name.
type named struct {
	what string
	told *Told
}

func (v *Outcome) all() []named {
	return []named{{"anonymous", v.Anonymous}, {"shadow with anonymous", v.Shadow}, {"seen users", v.Seen}, {"unseen users", v.Unseen}}
}

// AttackRows implements audits.Attacked.
func (v *Outcome) AttackRows() (rows []audits.Attack) {
	for _, x := range v.all() {
		if x.told != nil {
			of := "pairs of updates: " + x.what
			rows = append(rows, x.told.Network.Row("Siamese network", of), x.told.Cosine.Row("cosine", of))
		}
	}
	return rows
}

// baseline says so where training has gained nothing that the intervals can tell.
func (t *Told) baseline() string {
	is := ""
	switch n, c := &t.Network.AP, &t.Cosine.AP; {
	case c.Low > n.High:
		is = "is better"
	case c.Value > n.Value:
		is = "is higher, though it can't be told from it"
	case c.Value == n.Value:
		is = "is as good"
	case c.High >= n.Low:
		is = "can't be told from it"
	default:
		return ""
	}
	return fmt.Sprintf(" (%s), which needs no training and %s", t.Cosine.AP.Ends(), is)
}

var limits = []audits.Limit{audits.PairLimit(
	"matching", 2, "scores",
	"Matching limits how many times chance, which is 50, the average precision of pairs of a shadow device's update and an anonymous one is: those alone tell a user. "+
		"The better of the network and the cosine counts. A cell is above it where the lower end of the 95% interval over users is.",
	func(v *Outcome) (what string, users int, found audits.Bounded) {
		if v.Shadow == nil {
			return "", 0, audits.Bounded{}
		}
		by, best := "the network", v.Shadow.Network.AP
		if other := v.Shadow.Cosine.AP; other.Low > best.Low {
			by, best = "the cosine", other
		}
		return "the AP of pairs with a shadow device, told by " + by + ",", v.Shadow.Network.Users, best
	})}
