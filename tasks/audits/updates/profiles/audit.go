package profiles

import (
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/models/attacks"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/deanonymization"
	"coalmine/tasks/audits/updates/observed"
)

var Audit = observed.Describe[Fields, Outcome](audits.Description{
	Name:      "profiles",
	Kinds:     []tasks.Kind{Kind}, // the attacks are kinds of audit.deanonymization
	Models:    audits.Anything,
	Powerless: "an average precision, without an interval or a test",
	ByProgram: true,
	Measures: audits.Within((*Outcome).Best,
		audits.Measure{Name: "profiles_attack", Of: audits.Of(func(o *AttackOutcome) attacks.Kind { return o.Attack }), Header: "profiles by", Text: audits.Of(func(o *AttackOutcome) string { return o.Attack.Title() }), Doc: "attack with the highest profiles_ap"},
		audits.Measure{Name: "profiles_ap", Of: audits.Of(func(o *AttackOutcome) *float64 { return o.AP }), Header: "profile AP % (chance)", Text: audits.Of((*AttackOutcome).besideChance), Scale: audits.Percent, Digits: 1, Doc: "average precision with which the attack finds the users who fit a profile, by updates of their anonymous devices, mean over profiles; in brackets that of a random order"},
		audits.Measure{Name: "profiles_chance", Of: audits.Of(func(o *AttackOutcome) *float64 { return o.Chance }), Doc: "average precision of a random order of users, mean over profiles"},
	),
})

type Fields struct {
	// Ranks anonymous devices by the fit of their recorded updates to data.devices.profiles, by attacks
	// that learn from the profiles' devices. Needs training.record.
	Profiles *Block `json:"profiles,omitempty" source:"Orekondy et al. 2018, sections 5.2.2 (iii) and 6.1.1, figure 5"`
}

type Block struct {
	deanonymization.AttackFields
	// Users who fit a profile, for its average precision. Absent: devices are listed.
	Fit []Fit `json:"fit,omitempty" also:"truth"`
	// Best users to list.
	Found int `json:"found" default:"10" range:"[1,1000]" unit:"users"`
	deanonymization.TrainingFields
}

// Fit names the users who fit a profile.
type Fit struct {
	// A user of data.devices.profiles.
	Profile string `json:"profile" required:"true"`
	// Names as in the source, or patterns with * (any text), ? (any character) and [0-9]. One or a list.
	Users []string `json:"users" required:"true"`
}

const block = "audit.profiles"

func (f *Fields) Complete(_ *audits.Setting, given func(path string) bool) {
	f.Profiles.CompleteAttacks(block, given)
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	p := f.Profiles
	observed.CheckRecorded(s, block, p.Layers, fail)
	fail.If(s.Devices == nil || !s.Devices.Profiles, []string{block, "data.devices", "data.devices.profiles"}, "looks for profiles, and data.devices.profiles is absent; expected data.devices: {profiles: {source: FILE}}")
	observed.CheckOwned(s, block, fail)
	p.CheckAttacks(block, fail)
	p.checkFit(fail)
}

func (p *Block) checkFit(fail audits.Fail) {
	for i, fit := range p.Fit {
		twice := slices.ContainsFunc(p.Fit[:i], func(before Fit) bool { return before.Profile == fit.Profile })
		fail.If(twice, []string{block + ".fit"}, "names the profile %q twice; expected all who fit it in one list", fit.Profile)
		for _, problem := range observed.Patterns(fit.Users).Check() {
			fail([]string{block + ".fit"}, "%s", problem)
		}
	}
}

func (f *Fields) Warnings(s *audits.Setting, d *audits.Data) []string {
	if s.Recorded == nil {
		return nil
	}
	rounds := len(s.Recorded.RoundsOf(s.Training.Rounds))
	missed := observed.Missed(s, d, rounds)
	if missed < 0.05 {
		return nil
	}
	return []string{fmt.Sprintf("audit.profiles finds nobody who fits a profile whose device is in none of the %d recorded rounds: with %d of %d devices in a round the probability is %.0f%% for each; record more rounds, or raise training.rounds or training.cohort",
		rounds, s.Training.Cohort, d.Users, 100*missed)}
}

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	p := f.Profiles
	rounds := deanonymization.Rounds{From: 1, To: round}
	inputs := append(observed.NamesInputs(b), tasks.Input{Name: observed.DevicesInput, Key: b.Devices()})
	for i, kind := range p.Attacks {
		params := p.Params(b, kind, p.TrainingFields, rounds, rounds)
		params.Profiles = true
		key := b.Node(deanonymization.Reidentify, kind.Title()+" on profiles", params, observed.Inputs(b.Recorded(), b.Devices())...)
		inputs = append(inputs, tasks.Input{Name: deanonymization.AttackInput(i), Key: key})
	}
	return b.Node(Kind, "who fits the profiles", Params{Attacks: p.Attacks, Fit: p.Fit, Found: p.Found}, inputs...)
}

func (f *Fields) Work(s *audits.Setting) float64 {
	return deanonymization.AttacksWork(s, f.Profiles.Attacks, f.Profiles.Epochs, f.Profiles.Batch, 0)
}

type Outcome struct {
	Profiles []string        `json:"profiles"`
	Attacks  []AttackOutcome `json:"attacks"`
}

// AttackOutcome is the outcome of one attack.
type AttackOutcome struct {
	Attack   attacks.Kind `json:"attack"`
	Profiles []Found      `json:"profiles" doc:"of a profile"`
	// AP and Chance are means over profiles with known users; nil without such profiles.
	AP       *float64         `json:"ap,omitempty" doc:"average precision, mean over profiles with known users"`
	Chance   *float64         `json:"chance,omitempty" doc:"average precision by chance, mean over profiles with known users"`
	Training attacks.Training `json:"training,omitzero" doc:"of the network"`
}

// Found are the users that fit a profile best.
type Found struct {
	Profile string `json:"profile"`
	// Devices is the number of anonymous devices with an update, one for each user. It is 0 if no update of
	// the profile's device was recorded for learning.
	Devices int    `json:"devices" doc:"number of anonymous devices with an update"`
	Users   []User `json:"users,omitempty"`
	// Fit is the number of Devices whose users fit. AP is their average precision, in [0, 1], and Chance its
	// mean over all orders; nil if no user fits, or every user.
	Fit    int      `json:"fit,omitempty" doc:"number of users that fit the profile"`
	AP     *float64 `json:"ap,omitempty" doc:"average precision of the users that fit the profile"`
	Chance *float64 `json:"chance,omitempty" doc:"mean average precision over all orders of the users"`
}

// User is a found user.
type User struct {
	// User is the name, Score the mean of the device's scores.
	User  string  `json:"user"`
	Score float64 `json:"score" doc:"mean of the device's scores"`
	// Fits is nil if the experiment has no patterns for the profile.
	Fits *bool `json:"fits,omitempty"`
}

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

// Best returns the attack with the highest AP, or the first if no AP is known.
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

// besideChance returns AP and chance; empty if unknown.
func (o *AttackOutcome) besideChance() string {
	if o.AP == nil {
		return ""
	}
	return fmt.Sprintf("%.1f (%.1f)", 100**o.AP, 100**o.Chance)
}

// shown is the number of users named in a note.
const shown = 5

func (v *Outcome) Note(*audits.Cell) string {
	best := v.Best()
	if best == nil {
		return ""
	}
	parts := lists.Map(best.Profiles, func(f Found) string { return f.text() })
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
	users := lists.Map(f.Users[:min(shown, len(f.Users))], func(u User) string { return u.User })
	text := fmt.Sprintf("%s: %s, of %d users", f.Profile, strings.Join(users, ", "), f.Devices)
	if f.AP != nil {
		text += fmt.Sprintf(" (%d fit; AP %.1f%%, chance %.1f%%)", f.Fit, 100**f.AP, 100**f.Chance)
	}
	return text
}
