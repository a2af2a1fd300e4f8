package matching

import (
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/updates/observed/observedtest"
	"coalmine/tasks/audits/updates/pairs"
	"coalmine/tasks/devices"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/updates"
)

func params() pairs.Params {
	return pairs.Params{Seed: 1, Pairs: 2000, Units: 16, Epochs: 12, Batch: 32, LearningRate: 1e-3, Updates: 4000}
}

func match(t *testing.T, p pairs.Params, split []devices.Device, list []updates.Update) (*Outcome, error) {
	t.Helper()
	g := taskstest.NewGraph(t)
	v, _, err := auditstest.Measured[Outcome](g, Kind, p, observedtest.Inputs(g, observedtest.Layout, split, list)...)
	return v, err
}

func TestPairsOfUnseenUsersAreMatched(t *testing.T) {
	t.Parallel()
	split, list := observedtest.Federation{Users: 40, Rounds: 120, Cohort: 15, Own: 4, Common: 1, Unseen: 12, HeldOut: 14}.Make()
	v := must.Get(match(t, params(), split, list))(t)
	if v.Learned.Users+v.Learned.ValidationUsers != 28 || v.Learned.ValidationUsers != 5 || len(v.Learned.Course) != 12 {
		t.Errorf("learned %+v", v.Learned)
	}
	for what, told := range map[string]*Measurements{"anonymous": v.Anonymous, "shadow": v.Shadow, "seen": v.Seen, "unseen": v.Unseen} {
		if told == nil || told.Network.AP.Value < 0.75 || told.Cosine.AP.Value < 0.8 || told.Network.Pairs != 2000 || told.Network.Same != 1000 {
			t.Errorf("%s pairs: %+v", what, told)
		}
	}
}

// The mean of a round's updates hides the differences of users, unless it is subtracted.
func TestCentredUpdatesAreMatchedBetter(t *testing.T) {
	t.Parallel()
	split, list := observedtest.Federation{Users: 30, Rounds: 100, Cohort: 15, Own: 3, Common: 8}.Make()
	p := params()
	told := map[bool]*Measurements{}
	for _, p.Centre = range []bool{false, true} {
		v := must.Get(match(t, p, split, list))(t)
		told[p.Centre] = v.Anonymous
	}
	if plain, centred := told[false].Network.AP, told[true].Network.AP; centred.Low <= plain.High {
		t.Errorf("average precision %+v, centred %+v", plain, centred)
	}
	// The cosine is always of centred updates.
	if d := told[false].Cosine.AP.Value - told[true].Cosine.AP.Value; d > 1e-3 || d < -1e-3 {
		t.Errorf("cosines %+v and %+v", told[false].Cosine, told[true].Cosine)
	}
}

// In a closed world nobody is unseen, and without anything of their own users are told by
// chance. Four standard deviations, by the intervals, are passed with probability 6e-5; the seed is fixed.
func TestEqualUsersAreMatchedByChance(t *testing.T) {
	t.Parallel()
	split, list := observedtest.Federation{Users: 30, Rounds: 100, Cohort: 15, Common: 1}.Make()
	v := must.Get(match(t, params(), split, list))(t)
	if v.Seen != nil || v.Unseen != nil {
		t.Errorf("outcome %+v of a closed world", v)
	}
	for what, told := range map[string]*Measurements{"anonymous": v.Anonymous, "shadow": v.Shadow} {
		for by, auc := range map[string]audits.Interval{"network": told.Network.AUC, "cosine": told.Cosine.AUC} {
			if sd := (auc.High - auc.Low) / (2 * 1.96); math.Abs(auc.Value-0.5) > 4*sd {
				t.Errorf("%s pairs: %+v by the %s", what, auc, by)
			}
		}
	}
}

func TestOutcomeComparesNetworkWithCosine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cosine audits.Interval
		ends   string
	}{
		{audits.Interval{Value: 0.8, Low: 0.75, High: 0.85}, "by cosine alone 80.0 (75.0 to 85.0), which needs no training and is as good"},
		{audits.Interval{Value: 0.81, Low: 0.77, High: 0.85}, "by cosine alone 81.0 (77.0 to 85.0), which needs no training and is higher, but the intervals overlap"},
		{audits.Interval{Value: 0.9, Low: 0.85, High: 0.95}, "by cosine alone 90.0 (85.0 to 95.0), which needs no training and is better"},
		{audits.Interval{Value: 0.75, Low: 0.7, High: 0.79}, "by cosine alone 75.0 (70.0 to 79.0), which needs no training and has an overlapping interval"},
		{audits.Interval{Value: 0.7, Low: 0.65, High: 0.75}, "AP 80.0 (78.0 to 82.0), by cosine alone 70.0"},
	} {
		v := Outcome{Shadow: new(Measurements)}
		v.Shadow.Network.AP, v.Shadow.Cosine.AP = audits.Interval{Value: 0.8, Low: 0.78, High: 0.82}, c.cosine
		if note := v.Note(nil); !strings.Contains(note, c.ends+"; the intervals hold") {
			t.Errorf("note %q, want %q", note, c.ends)
		}
	}
}

// More networks change nothing of the first; their spread is that of the AP alone.
func TestMoreNetworksMeasureSpreadOfInitialValues(t *testing.T) {
	t.Parallel()
	split, list := observedtest.Federation{Users: 20, Rounds: 60, Cohort: 10, Own: 1, Common: 1}.Make()
	p := params()
	p.Pairs, p.Epochs = 400, 3
	one := must.Get(match(t, p, split, list))(t)
	p.Again = 2
	three := must.Get(match(t, p, split, list))(t)
	e := three.Learned.Networks
	if one.Learned.Networks != nil || e == nil || e.N != 3 || *e.SD == 0 || *three.Anonymous != *one.Anonymous {
		t.Fatalf("%+v with one network, %+v with three, of which the AP is %+v", one.Anonymous, three.Anonymous, e)
	}
	if note := three.Note(nil); !strings.Contains(note, "AP of anonymous pairs by 3 networks") {
		t.Errorf("note %q", note)
	}
	for i, row := range three.attackRows() {
		if ofNetworks := i == 0; (row.NetworksAP != nil) != ofNetworks || ofNetworks && (*row.NetworksAP != float64(e.Mean) || *row.NetworksSD != *e.SD) {
			t.Errorf("row %d of %s, %s: %v and %v over networks, of which the AP is %+v", i, row.Attack, row.Of, row.NetworksAP, row.NetworksSD, e)
		}
	}
	if mean, sd := auditstest.Value(&Audit, three, "matching_networks_ap"), auditstest.Value(&Audit, three, "matching_networks_sd"); mean != float64(e.Mean) || sd != *e.SD || auditstest.Value(&Audit, one, "matching_networks_sd") != nil {
		t.Errorf("columns %v and %v, want those of %+v", mean, sd, e)
	}
}

func TestTooFewUpdatesAreRejected(t *testing.T) {
	t.Parallel()
	split, list := observedtest.Federation{Users: 12, Rounds: 30, Cohort: 6, Own: 1, Common: 1}.Make()
	shadows := 0
	for i := range split {
		if split[i].Shadow {
			shadows++
			split[i].Shadow = shadows == 1
		}
	}
	for name, list := range map[string][]updates.Update{"one round": list[:6], "one shadow device": list} {
		if _, err := match(t, params(), split, list); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "shadow devices") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	split, list := observedtest.Federation{Users: 10, Rounds: 30, Cohort: 8, Own: 1, Common: 1, Unseen: 2, HeldOut: 3}.Make()
	g := taskstest.NewGraph(t)
	p := params()
	p.Pairs, p.Epochs = 100, 2
	taskstest.Golden(t, g.Run(Kind, p, observedtest.Inputs(g, observedtest.Layout, split, list)...))
}

// Limits are passed by the lower end of an interval, not by the number itself.
func TestLimitsArePassedByLowerBounds(t *testing.T) {
	t.Parallel()
	v := &Outcome{Shadow: new(Measurements)}
	v.Shadow.Network.Users = 30
	v.Shadow.Network.AP.Value, v.Shadow.Network.AP.Low = 0.9, 0.55
	v.Shadow.Cosine.AP.Value, v.Shadow.Cosine.AP.Low = 0.7, 0.6
	auditstest.CheckLimit(t, &Audit, v, new(Outcome), map[float64][]string{
		1.15: {"the AP of pairs with a shadow device, told by the cosine, is 1.4 times chance; at least it is 1.2, above the limit of 1.15"},
		1.3:  nil,
	})
}
