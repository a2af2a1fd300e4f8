package attributes

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/updates/observed/observedtest"
	"coalmine/tasks/devices"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/updates"
)

// federation has users u00, u01, …, whose updates differ by themselves and, by attribute, by
// whether their number is even.
type federation struct {
	observedtest.Federation
	attribute float32
}

func (f federation) make() (split []devices.Device, list []updates.Update) {
	split, list = f.Make()
	for _, u := range list {
		sign := f.attribute
		if split[u.Device].User%2 == 1 {
			sign = -sign
		}
		for i := range 10 {
			u.Values[observedtest.Values-1-i] += sign
		}
	}
	return split, list
}

// try measures on a source of the users' names; every user has the same number of
// examples, in the order of their numbers.
func try(t *testing.T, p Params, users int, split []devices.Device, list []updates.Update) (*Outcome, *taskstest.Node, error) {
	t.Helper()
	g := taskstest.NewGraph(t)
	inputs := append(observedtest.Inputs(g, observedtest.Layout, split, list), observedtest.Names(g, users)...)
	return auditstest.Measured[Outcome](g, Kind, p, inputs...)
}

func params() Params {
	return Params{
		Seed: 1, Values: []Value{{"even", []string{"u[0-9][02468]"}}, {"odd", []string{"u[0-9][13579]"}}},
		Network: Network{Units: 32, Epochs: 60, Batch: 16, LearningRate: 0.05, Updates: 4000},
	}
}

func openWorld() federation {
	return federation{observedtest.Federation{Users: 24, Rounds: 60, Cohort: 14, Own: 4, Common: 1, Unseen: 8, HeldOut: 4}, 3}
}

func TestAttributesAreInferred(t *testing.T) {
	t.Parallel()
	split, list := openWorld().make()
	v, _, err := try(t, params(), 24, split, list)
	if err != nil {
		t.Fatal(err)
	}
	for what, a := range map[string]*Accuracy{
		"attribute": v.Attribute.Attribute, "attribute, joint": v.Joint.Attribute, "identity": v.Identity.Identity, "identity, joint": v.Joint.Identity,
		"by identity": v.ByIdentity, "unseen": v.Attribute.Unseen, "unseen, joint": v.Joint.Unseen,
	} {
		if a == nil || a.Accuracy < 0.85 || a.Low > a.Accuracy || a.High < a.Accuracy {
			t.Errorf("%s: %+v", what, a)
		}
	}
	if m := v.Majority; m.Seen.Accuracy > 0.65 || m.Seen.Users != 12 || m.Unseen.Users != 8 || v.Identity.Attribute != nil || v.Attribute.Identity != nil {
		t.Errorf("majority %+v, %+v, networks %+v and %+v", m.Seen, m.Unseen, v.Identity, v.Attribute)
	}
	if u := v.Users; len(u) != 2 || u[0].Shadow != 8 || u[1].Shadow != 8 || u[0].Anonymous != 10 || u[1].Anonymous != 10 {
		t.Errorf("users %+v", u)
	}
}

// An attribute that is not in the updates is not found for unseen users. For seen users it
// follows from their identity.
func TestAbsentAttributeIsInferredByChance(t *testing.T) {
	t.Parallel()
	f := openWorld()
	f.attribute, f.Own, f.Unseen = 0, 0, 12
	f.Users = 28
	split, list := f.make()
	v, _, err := try(t, params(), 28, split, list)
	if err != nil {
		t.Fatal(err)
	}
	for what, a := range map[string]*Accuracy{"seen": v.Attribute.Attribute, "unseen": v.Attribute.Unseen, "joint": v.Joint.Unseen} {
		if a.Low > 0.5 || a.High < 0.5 {
			t.Errorf("%s: %+v", what, a)
		}
	}
}

func TestUsersWithoutAValueAreLeftOut(t *testing.T) {
	t.Parallel()
	split, list := openWorld().make()
	p := params()
	p.Values = []Value{{"even", []string{"u00", "u0[246]"}}, {"odd", []string{"u01", "u03", "u05"}}}
	p.Epochs = 2
	v, _, err := try(t, p, 24, split, list)
	if err != nil {
		t.Fatal(err)
	}
	if v.Users[0].Shadow != 4 || v.Users[1].Shadow != 3 || v.Attribute.Attribute.Users != 7 || v.Attribute.Unseen != nil || v.Majority.Unseen != nil {
		t.Errorf("users %+v, attribute %+v", v.Users, v.Attribute)
	}
}

func TestUnusableValuesAreErrors(t *testing.T) {
	t.Parallel()
	split, list := openWorld().make()
	for want, values := range map[string][]Value{
		`no user of the source has the value "b"`:              {{"a", []string{"u*"}}, {"b", []string{"x*"}}},
		`user "u00" has two values, "a" and "b"`:               {{"a", []string{"u*"}}, {"b", []string{"u00"}}},
		`shadow device of a user with the value "b"`:           {{"a", []string{"u0*"}}, {"b", []string{"u13"}}},
		`no recorded update of an anonymous device of a user `: {{"a", []string{"u23"}}, {"b", []string{"u22"}}},
	} {
		p := params()
		p.Values = values
		if _, _, err := try(t, p, 24, split, list); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v gives %v, want a word of %q", values, err, want)
		}
	}
}

func TestCheckValues(t *testing.T) {
	t.Parallel()
	for want, values := range map[string][]Value{
		"has 1 values":              {{"a", []string{"u"}}},
		"twice":                     {{"a", []string{"u"}}, {"a", []string{"v"}}},
		"to nobody":                 {{"a", nil}, {"b", []string{"v"}}},
		"the pattern \"[\", which ": {{"a", []string{"["}}, {"b", []string{"v"}}},
	} {
		if got := strings.Join(checkValues(values), "; "); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want a word of %q", values, got, want)
		}
	}
	if got := checkValues(params().Values); len(got) != 0 {
		t.Errorf("problems %q of values without any", got)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	split, list := openWorld().make()
	p := params()
	p.Epochs = 2
	_, n, err := try(t, p, 24, split, list)
	if err != nil {
		t.Fatal(err)
	}
	taskstest.Golden(t, n)
}

func TestNoteWarnsOfTrainingEndedByLastEpoch(t *testing.T) {
	t.Parallel()
	const warning = "its training ended with its last epoch, 30: more may tell more"
	ended := AttackOutcome{Epochs: 30, Best: 30 - patience}
	for _, stopped := range []int{-1, 0, 1, 2} {
		networks := []AttackOutcome{ended, ended, ended}
		if stopped >= 0 {
			networks[stopped].Best++
		}
		v := &Outcome{Attribute: networks[0], Identity: networks[1], Joint: networks[2]}
		if note := v.Note(nil); strings.Contains(note, warning) != (stopped >= 0) || !strings.Contains(note, audits.UsersAlone) {
			t.Errorf("network %d was stopped early: %q", stopped, note)
		}
	}
}

// Limits are passed by the lower end of an interval, not by the number itself.
func TestLimitsArePassedByLowerBounds(t *testing.T) {
	t.Parallel()
	v := &Outcome{Attribute: AttackOutcome{Attribute: &Accuracy{Users: 30, Accuracy: 0.9, FactorLow: new(1.2)}, Unseen: &Accuracy{Users: 30, Accuracy: 0.8, FactorLow: new(1.4)}}}
	v.Majority.Seen, v.Majority.Unseen = &Accuracy{Accuracy: 0.5}, &Accuracy{Accuracy: 0.5}
	auditstest.CheckLimit(t, &Audit, v, new(Outcome), map[float64][]string{
		1.3: {"the accuracy of the attribute of unseen users is 1.6 times chance; at least it is 1.4, above the limit of 1.3"},
		1.5: nil,
	})
}

// The power of the closed form is that of accuracies that are drawn and judged as real ones, up to 11 points: of
// 200 simulated audits the standard error is up to 3.6 points, and few users are no normal numbers.
func TestPowerMatchesSimulatedAccuracies(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		users         int
		share, chance float64
	}{{20, 0.7, 0.5}, {50, 0.4, 0.5}, {60, 0.2, 0.25}, {100, 0.2, 0.5}} {
		rng := rand.New(rand.NewPCG(36, uint64(i)))
		const trials = 200
		found := 0
		for range trials {
			right, most, sent := make([]float64, c.users), make([]float64, c.users), make([]float64, c.users)
			for u := range sent {
				sent[u] = 1
				right[u], most[u] = draw(rng, c.share+(1-c.share)*c.chance), draw(rng, c.chance)
			}
			if floats.Sum(most) > 0 && Interval(rng.Uint64(), right, most, sent).Low > 1 {
				found++
			}
		}
		power := accuracyPower(c.share+(1-c.share)*c.chance, c.chance, 1, c.users)
		share := float64(found) / trials
		t.Logf("%+v: power %.3f, found %.3f", c, power, share)
		if math.Abs(power-share) > 0.11 { // standard error at most 0.036
			t.Errorf("%+v: power %.3f, found %.3f", c, power, share)
		}
	}
}

func draw(rng *rand.Rand, p float64) float64 {
	if rng.Float64() < p {
		return 1
	}
	return 0
}
