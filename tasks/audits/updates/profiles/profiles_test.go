package profiles

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models/attacks"
	"coalmine/tasks"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/updates/deanonymization"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/observed/observedtest"
	"coalmine/tasks/devices"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/updates"
)

const (
	users  = 24
	rounds = 30
)

// federation has a profile whose updates, and those of every sixth user, go so far into a
// direction of their own.
func federation(heldOut int, far float32) (split []devices.Device, list []updates.Update) {
	f := observedtest.Federation{Users: users, Rounds: rounds, Cohort: 16, Own: 1, Common: 1, HeldOut: heldOut}
	made, all := f.Make()
	split = append(made, devices.Device{User: users, Shadow: true, Set: devices.Profile})
	for round := 1; round <= rounds; round++ {
		var last updates.Update
		for _, u := range all {
			if u.Round != round {
				continue
			}
			last = u
			list = append(list, u)
			if split[u.Device].User%6 == 0 {
				bend(u.Values, far)
			}
		}
		own := updates.Update{Round: round, Device: len(split) - 1, Values: slices.Clone(last.Values)}
		if split[last.Device].User%6 != 0 {
			bend(own.Values, far)
		}
		list = append(list, own)
	}
	return split, list
}

// bend moves the values that no user has as its own.
func bend(values []float32, far float32) {
	for i := range 10 {
		values[observedtest.Values-1-i] += far
	}
}

func params() Params {
	return Params{Attacks: attacks.Kinds(), Fit: []Fit{{"weapons", []string{"u00", "u06", "u1[28]"}}}, Found: 4}
}

// find runs all attacks on a federation, and ranks.
func find(t *testing.T, p Params, split []devices.Device, list []updates.Update, of []string) (*taskstest.Node, *Outcome, error) {
	t.Helper()
	g := taskstest.NewGraph(t)
	recorded := observedtest.Inputs(g, observedtest.Layout, split, list)
	described := must.Get(json.Marshal(split))(t)
	named := must.Get(json.Marshal(of))(t)
	inputs := append(observedtest.Names(g, users), taskstest.In(observed.DevicesInput,
		g.Put("profiles", map[string][]byte{devices.DevicesBlob: described, devices.ProfilesBlob: named})))
	for i, kind := range p.Attacks {
		all := deanonymization.Rounds{From: 1, To: rounds}
		attack := deanonymization.Params{Seed: 1, Attack: kind, Learn: all, Try: all, Profiles: true, TrainingFields: deanonymization.TrainingFields{Epochs: 200, Batch: 16, Memory: 16}}
		inputs = append(inputs, taskstest.In(deanonymization.AttackInput(i), g.Run(deanonymization.Reidentify, attack, recorded...)))
	}
	v, n, err := auditstest.Measured[Outcome](g, Kind, p, inputs...)
	return n, v, err
}

// Fitting users rank before all others, whether held-out users or all shadows are the
// negative examples; held-out users are not ranked.
func TestFittingUsersRankFirst(t *testing.T) {
	t.Parallel()
	for _, heldOut := range []int{0, 5} {
		split, list := federation(heldOut, 2)
		_, v, err := find(t, params(), split, list, []string{"weapons"})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range v.Attacks {
			f := o.Profiles[0]
			if o.AP == nil || *o.AP < 0.95 || f.Fit != 4 || f.Devices != users-heldOut || len(f.Users) != 4 {
				t.Errorf("with %d held out %s finds %+v", heldOut, o.Attack, f)
				continue
			}
			for i, u := range f.Users {
				if i > 0 && u.Score > f.Users[i-1].Score || u.Fits == nil {
					t.Errorf("%s lists %+v", o.Attack, f.Users)
				}
			}
		}
		if best := v.Best(); *best.Chance > 0.5 || !strings.Contains(v.Note(nil), "weapons: u") {
			t.Errorf("chance is %v, the note %q", *best.Chance, v.Note(nil))
		}
	}
}

// An unrelated profile finds the fitting users by chance alone, within the error of 24 users
// for the mean over attacks.
func TestUnrelatedProfileFindsUsersByChance(t *testing.T) {
	t.Parallel()
	split, list := federation(0, 0)
	_, v, err := find(t, params(), split, list, []string{"weapons"})
	if err != nil {
		t.Fatal(err)
	}
	if o := v.Attacks[len(v.Attacks)-1]; *o.AP > 0.6 || math.Abs(*o.Chance-0.27) > 0.03 {
		t.Errorf("by nothing %s reaches an AP of %v, chance is %v", o.Attack, *o.AP, *o.Chance)
	}
}

func TestUsersAreListedWithoutScoreIfFitIsNil(t *testing.T) {
	t.Parallel()
	split, list := federation(0, 2)
	p := params()
	p.Fit, p.Found, p.Attacks = nil, 100, []attacks.Kind{attacks.Cosine}
	_, v, err := find(t, p, split, list, []string{"weapons"})
	if err != nil {
		t.Fatal(err)
	}
	f := v.Attacks[0].Profiles[0]
	if f.AP != nil || len(f.Users) != users || f.Users[0].Fits != nil || auditstest.Texts(&Audit, v)[1] != "-" || auditstest.Value(&Audit, v, "profiles_ap") != nil {
		t.Errorf("found %+v", f)
	}
}

func TestUnknownProfilesAndUsersAreErrors(t *testing.T) {
	t.Parallel()
	split, list := federation(0, 2)
	for want, fit := range map[string]Fit{
		`names the profile "guitars"; data.devices.profiles has weapons`: {"guitars", []string{"u*"}},
		`no user of the source fits the profile "weapons" (x*)`:          {"weapons", []string{"x*"}},
	} {
		p := params()
		p.Attacks, p.Fit = []attacks.Kind{attacks.Cosine}, []Fit{fit}
		if _, _, err := find(t, p, split, list, []string{"weapons"}); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v gives %v, want a word of %q", fit, err, want)
		}
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	split, list := federation(5, 2)
	p := params()
	p.Attacks = []attacks.Kind{attacks.KNN, attacks.Cosine}
	n, _, err := find(t, p, split, list, []string{"weapons"})
	if err != nil {
		t.Fatal(err)
	}
	taskstest.Golden(t, n)
}

func TestNoteWarnsOfTrainingEndedByLastEpoch(t *testing.T) {
	t.Parallel()
	const warning = "(its training ended with its last epoch, 30: more may tell more)"
	for _, converged := range []bool{false, true} {
		v := &Outcome{Attacks: []AttackOutcome{{Attack: attacks.MLP, Training: attacks.Training{Epochs: 30, Best: 30, Converged: converged}}}}
		if note := v.Note(nil); strings.Contains(note, warning) == converged {
			t.Errorf("converged %v: %q", converged, note)
		}
	}
}
