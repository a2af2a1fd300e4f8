package membership

import (
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/datasets/population"
)

// found is an outcome with an attack that finds most users.
func found() *Outcome {
	share := audits.NewShare(60, 100)
	group := func(low float64) *Group {
		return &Group{Users: 100, AUC: audits.Interval{Value: 0.9, Low: low, High: 0.95}, P: 1e-9, Rates: []Rate{{0.01, &share, 1000}, {0.001, nil, 10_000}}}
	}
	return &Outcome{Members: 100, Sharers: 100, HeldOut: 1000, Attacks: []AttackOutcome{{Attack: Loss, Members: group(0.85), Sharers: group(0.7)}}}
}

// Limits are passed by the lower end of an interval, not by the number itself.
func TestLimitsArePassedByLowerBounds(t *testing.T) {
	t.Parallel()
	cell := &audits.Cell{Outcomes: []audits.Outcome{found()}}
	for limit, want := range map[float64][]string{
		0.8: {"the AUC of membership by loss is 0.9; at least it is 0.85, above the limit of 0.8"},
		0.6: {
			"the AUC of membership by loss is 0.9; at least it is 0.85, above the limit of 0.6",
			"the AUC of membership of users with canaries by loss is 0.9; at least it is 0.7, above the limit of 0.6",
		},
		0.87: nil,
	} {
		if got := limits[0].Breaches(cell, &limit); !slices.Equal(got, want) {
			t.Errorf("limit %g: %q, want %q", limit, got, want)
		}
	}
	for limit, want := range map[float64]int{0.49: 2, 0.55: 0} { // 60 of 100: 49.7% at least
		if got := limits[1].Breaches(cell, &limit); len(got) != want {
			t.Errorf("limit %g: %q, want %d", limit, got, want)
		}
	}
	if got := Audit.GivenLimits(Audit.NewLimits()); got != nil {
		t.Errorf("without a limit %v is judged", got)
	}
}

func TestTheBestAttackIsDrawn(t *testing.T) {
	t.Parallel()
	v := found()
	v.Attacks = append(v.Attacks, AttackOutcome{Attack: Zlib, Members: &Group{AUC: audits.Interval{Value: 0.95, Low: 0.9, High: 0.97}}})
	drawn := &Audit.Measures[slices.IndexFunc(Audit.Measures, func(m audits.Measure) bool { return m.Drawn != "" })]
	if got, ok := drawn.Interval(v); !ok || got != (audits.Interval{Value: 95, Low: 90, High: 97}) {
		t.Errorf("%+v, want the area of zlib in percent", got)
	}
	if got, ok := drawn.Interval(new(Outcome)); ok {
		t.Errorf("%+v of no attack", got)
	}
}

// A gate that can't be measured does not pass.
func TestARateThatCannotBeEstimatedPassesNoLimit(t *testing.T) {
	t.Parallel()
	v, limit := found(), 0.5
	v.Attacks[0].Sharers, v.Attacks[0].Members.Rates[0].TruePositives = nil, nil
	got := limits[1].Breaches(&audits.Cell{Outcomes: []audits.Outcome{v}}, &limit)
	want := []string{"the true-positive rate of membership by loss can't be estimated, and so is not below the limit of 0.5: it takes 1000 held-out users"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNoteReportsEstimatesAndTooFewUsers(t *testing.T) {
	t.Parallel()
	want := "membership: 100 users that trained against 1000 held-out ones; 100 users with canaries apart; " +
		"loss: AUC 90.00% (85.00 to 95.00), p 1e-09, TPR at 1% FPR 60.00% (49.72 to 69.67), " +
		"of users with canaries AUC 90.00% (70.00 to 95.00)"
	if got := found().Note(nil); !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant %s…", got, want)
	}
	few := found()
	few.Members, few.Blind = 2, &AttackOutcome{Attack: Blind, Members: &Group{Users: 2}}
	if got := few.Note(nil); !strings.Contains(got, "tell members with AUC 0.00% (0.00 to 0.00), too few users to tell it from chance: 2 of at least 6;") {
		t.Errorf("of two users: %s", got)
	}
	if got := auditstest.Texts(&Audit, found()); !slices.Equal(got, []string{"90.0", "60.0", "", "", ""}) {
		t.Errorf("texts %q", got)
	}
	if got := auditstest.Texts(&Audit, new(Outcome)); !slices.Equal(got, []string{"-", "", "", "", ""}) {
		t.Errorf("texts of nothing %q", got)
	}
}

func TestTheFigureHasALineForEachAttack(t *testing.T) {
	t.Parallel()
	v := found()
	if v.Figure(nil) != nil {
		t.Error("a figure without a curve")
	}
	v.Attacks[0].Curve = rocCurve([]float64{1, 2}, []float64{0, 1})
	f := v.Figure(nil)
	if len(f.Lines) != 2 || f.Lines[1].Name != "loss" || f.Lines[1].Points[50] != (audits.Point{X: 50, Y: 100}) || f.Lines[1].Points[0] != (audits.Point{Y: 50}) {
		t.Errorf("%+v", f)
	}
}

// One user has no spread: no figure, no limit that is kept, and a warning before.
func TestTooFewUsersGiveNoAUC(t *testing.T) {
	t.Parallel()
	limit, f := 0.8, Fields{Membership: new(Block)}
	for _, c := range []struct{ members, heldOut, groups, warnings int }{{1, 12, 0, 1}, {12, 1, 0, 1}, {2, 2, 1, 2}, {40, 1000, 1, 0}, {29, 1000, 1, 1}} {
		w := newWorld(users(c.members, c.heldOut), 1)
		v := must.Get(w.outcome())(t)
		auc, text := v.of(Loss).Members, auditstest.Texts(&Audit, v)[0]
		if (auc != nil) != (c.groups > 0) || (text == "-") != (auc == nil) || v.tooFew() != (auc == nil) || strings.Contains(v.Note(nil), "no AUC") != v.tooFew() {
			t.Errorf("%d against %d: AUC %v, printed %q, note %q", c.members, c.heldOut, auc, text, v.Note(nil))
		}
		breaches := limits[0].Breaches(&audits.Cell{Outcomes: []audits.Outcome{v}}, &limit)
		if v.tooFew() != (len(breaches) == 1 && strings.Contains(breaches[0], "can't be estimated")) {
			t.Errorf("%d against %d: %q", c.members, c.heldOut, breaches)
		}
		if got := f.Warnings(nil, &audits.Data{Users: c.members, HeldOutUsers: c.heldOut}); len(got) != c.warnings {
			t.Errorf("%d against %d: plan warns %q", c.members, c.heldOut, got)
		}
	}
}

// Users with canaries stand apart: few others are too few, however many train.
func TestMembersExcludeCanaryCarriers(t *testing.T) {
	t.Parallel()
	f := Fields{Membership: new(Block)}
	for carriers, want := range map[int]string{
		0:  "",
		80: "about 20 training users without a canary: an AUC over fewer than 30 says little",
		99: "about 1 training user without a canary and 1000 held-out users: an AUC takes 2 of each",
	} {
		d := &audits.Data{Users: 100, HeldOutUsers: 1000, Carriers: carriers}
		if got := strings.Join(f.Warnings(nil, d), "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("with %d users that carry canaries plan warns %q, want %q", carriers, got, want)
		}
		if sizes := usersOf(&audits.Setting{Data: d}, nil); sizes[0].N != 100-carriers {
			t.Errorf("with %d users that carry canaries %d are members", carriers, sizes[0].N)
		}
	}
}

// users have losses in between each other.
func users(members, heldOut int) (losses []UserLoss) {
	for i := range members + heldOut {
		losses = append(losses, UserLoss{Member: i < members, Targets: 10, Loss: float64(10 + i*7%13)})
	}
	return losses
}

func TestOutcomeMarksEqualScores(t *testing.T) {
	t.Parallel()
	losses := users(10, 10)
	for i := range losses {
		losses[i].Targets, losses[i].Loss = int64(1+i), 5*float64(1+i)
	}
	v, err := newWorld(losses, 1).outcome()
	if err != nil || !v.Alike || !strings.Contains(v.Note(nil), "scores everything alike") {
		t.Errorf("%+v (%v)", v, err)
	}
	if v, err := newWorld(users(10, 10), 1).outcome(); err != nil || v.Alike {
		t.Errorf("%+v (%v)", v, err)
	}
}

// A scorer that reads one model for all gives each user one loss under the model and its references.
func TestNoteWarnsOfReferencesEqualToModel(t *testing.T) {
	t.Parallel()
	for changed, alike := range map[float64]bool{0: true, 1: false} {
		w := newWorld(users(10, 10), 1)
		for model := range minReferences {
			losses := users(10, 10)
			losses[model].Loss += changed
			must.Do(t, w.refer(losses, population.ReferenceParams{Seed: 1, Model: model}.Members(20)))
		}
		v := must.Get(w.outcome())(t)
		if strings.Contains(v.Note(nil), "as if the scorer read one model for all") != alike {
			t.Errorf("losses that differ by %g: %s", changed, v.Note(nil))
		}
	}
}

// The sharer has no AUC, and the AUC of 7 users can't be above 0.6: others are judged, and both are named.
func TestLimitReportsUnjudgedNumbers(t *testing.T) {
	t.Parallel()
	limit := 0.95
	one, few := found(), found()
	one.Sharers, one.Attacks[0].Sharers = 1, nil
	one.Attacks = append(one.Attacks, AttackOutcome{Attack: MinK, Members: one.Attacks[0].Members})
	few.Sharers, few.Attacks[0].Sharers.Users, few.Attacks[0].Sharers.AUC.High = 7, 7, 1
	for want, v := range map[string]*Outcome{
		"the AUC of membership of users with canaries by loss, Min-K%, of too few users: it takes 2 of each sort, and 1 trained and 1000 are held out": one,
		"the AUC of membership of users with canaries by loss is 0.9, of too few users: 7":                                                             few,
	} {
		c, l := &audits.Cell{Outcomes: []audits.Outcome{v}}, &limits[0]
		if got := l.Unjudged(c, &limit); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := l.Breaches(c, &limit); got != nil {
			t.Errorf("the gate fails: %q", got)
		}
	}
	c := &audits.Cell{Outcomes: []audits.Outcome{one}}
	if got := limits[1].Unjudged(c, &limit); len(got) != 1 || !strings.Contains(got[0], "true-positive rate") {
		t.Errorf("of the rate %q", got)
	}
}
