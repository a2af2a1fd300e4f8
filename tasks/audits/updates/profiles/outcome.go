package profiles

import (
	"fmt"
	"strings"

	"coalmine/models/attacks"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Audit is that of profiles.
var Audit = audits.Description{
	Name: "profiles",
	Legend: "Profile AP: the mean over profiles of the average precision with which an attack finds the users who fit, by the updates of their anonymous devices, in %; " +
		"in brackets that of a random order.",
	New:       func() audits.Fields { return new(Fields) },
	Kinds:     []tasks.Kind{Kind}, // the attacks are kinds of audit.deanonymization
	Models:    audits.Anything,
	ByProgram: true,
	AtEnd:     true,
	Pairs:     audits.EverySecret,
	Outcome:   func() audits.Outcome { return new(Outcome) },
	Measures: audits.Within((*Outcome).Best,
		audits.Measure{Name: "profiles_attack", Of: audits.Of(func(o *AttackOutcome) attacks.Kind { return o.Attack }), Header: "profiles by", Text: audits.Of(func(o *AttackOutcome) string { return o.Attack.Title() })},
		audits.Measure{Name: "profiles_ap", Of: audits.Of(func(o *AttackOutcome) *float64 { return o.AP }), Header: "profile AP % (chance)", Text: audits.Of((*AttackOutcome).besideChance), Scale: audits.Percent, Digits: 1},
		audits.Measure{Name: "profiles_chance", Of: audits.Of(func(o *AttackOutcome) *float64 { return o.Chance })},
	),
}

// Outcome is the outcome: the metrics of audits/profiles.
type Outcome struct {
	// Profiles are their names.
	Profiles []string        `json:"profiles"`
	Attacks  []AttackOutcome `json:"attacks"`
}

// AttackOutcome is the outcome of one attack.
type AttackOutcome struct {
	Attack   attacks.Kind `json:"attack"`
	Profiles []Found      `json:"profiles"`
	// AP and Chance are means over the profiles of which it is said who fits; nil without any.
	AP     *float64 `json:"ap,omitempty"`
	Chance *float64 `json:"chance,omitempty"`
	// Training is how the attack was trained.
	Training attacks.Training `json:"training,omitzero"`
}

// Found are the users who fit a profile best.
type Found struct {
	Profile string `json:"profile"`
	// Devices are the anonymous ones that have sent an update: a user has one. With none, there
	// was no update of the profile's device to learn from.
	Devices int `json:"devices"`
	// Users are the best, the best first.
	Users []User `json:"users,omitempty"`
	// Fit is the number of Devices whose users fit, AP the average precision of these, in [0, 1],
	// and Chance its mean over all orders; nil if no user fits, or every user.
	Fit    int      `json:"fit,omitempty"`
	AP     *float64 `json:"ap,omitempty"`
	Chance *float64 `json:"chance,omitempty"`
}

// User is one who was found.
type User struct {
	// User is the name, Score the mean of the attack's scores of the device's updates.
	User  string  `json:"user"`
	Score float64 `json:"score"`
	// Fits says whether the user fits, where the experiment says who does.
	Fits *bool `json:"fits,omitempty"`
}

// mean fills in the means over profiles.
func (o *AttackOutcome) mean() {
	ap, chance, n := 0.0, 0.0, 0.0
	for _, f := range o.Profiles {
		if f.AP != nil {
			ap, chance, n = ap+*f.AP, chance+*f.Chance, n+1
		}
	}
	if n > 0 {
		o.AP, o.Chance = new(ap/n), new(chance/n)
	}
}

// Best is the attack of the highest AP; the first where no AP is known.
func (v *Outcome) Best() *AttackOutcome {
	var best *AttackOutcome
	for i := range v.Attacks {
		o := &v.Attacks[i]
		if best == nil || o.AP != nil && (best.AP == nil || *o.AP > *best.AP) {
			best = o
		}
	}
	return best
}

// besideChance is the AP, and chance; empty where neither is known.
func (o *AttackOutcome) besideChance() string {
	if o.AP == nil {
		return ""
	}
	return fmt.Sprintf("%.1f (%.1f)", 100**o.AP, 100**o.Chance)
}

// shown is how many users a note names.
const shown = 5

func (v *Outcome) Note(*audits.Cell) string {
	best := v.Best()
	if best == nil {
		return ""
	}
	var parts []string
	for _, f := range best.Profiles {
		parts = append(parts, f.text())
	}
	note := fmt.Sprintf("who fits the profiles best, by %s: %s", best.Attack.Title(), strings.Join(parts, "; "))
	if best.Training.Unfinished() {
		note += audits.LastEpoch(best.Training.Epochs)
	}
	return note
}

func (f *Found) text() string {
	if f.Devices == 0 {
		return f.Profile + ": its device has sent no update that was recorded"
	}
	var users []string
	for _, u := range f.Users[:min(shown, len(f.Users))] {
		users = append(users, u.User)
	}
	text := fmt.Sprintf("%s: %s, of %d users", f.Profile, strings.Join(users, ", "), f.Devices)
	if f.AP != nil {
		text += fmt.Sprintf(" (%d fit; AP %.1f%%, chance %.1f%%)", f.Fit, 100**f.AP, 100**f.Chance)
	}
	return text
}
