package profiles

import (
	"fmt"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/deanonymization"
	"coalmine/tasks/audits/updates/observed"
)

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

// Fit says who fits a profile.
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
	return []string{fmt.Sprintf("audit.profiles finds nobody who fits a profile whose device is in none of the %d recorded rounds: with %d of %d devices in a round the probability is %.0f%% for each (%s); record more rounds, or raise training.rounds or training.cohort",
		rounds, s.Training.Cohort, d.Users, 100*missed, d.Label)}
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
