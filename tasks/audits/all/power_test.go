package all

import (
	"encoding/json"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/tasks/audits"
)

// The exceptions measure no leak, except skew_normal, whose power is that of exposure, and privacy, which is proved.
func TestEveryAuditHasPowerOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	without := []string{"utility", "baselines", "accuracy_per_user", "samples", "generated_images", "upper_bound", "skew_normal", "privacy"}
	for _, d := range Audits() {
		if said := d.Powerless != ""; said == (d.Power != nil) && !slices.Contains(without, d.Name) {
			t.Errorf("%s: power %t, a reason for none %t", d.Name, d.Power != nil, said)
		}
	}
}

// Audits of membership and of pairs say before training that they are too small for any find, and only then: the
// power for the largest leak is about 0, at each number of users.
func TestTooFewForAFindIsSaid(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]string{
		"one_run":         `{"one_run": {"canaries": 10, "guesses": {"k_plus": 3, "k_minus": 3}, "delta": 1e-5, "confidence": "95%", "trade_off": true}}`,
		"many_runs":       `{"many_runs": {"runs": 20, "delta": 1e-5, "confidence": "95%"}}`,
		"one_shot":        `{"one_shot": {"canaries": 20, "unseen": 20, "delta": 1e-5, "statistic": "both"}}`,
		"neighbours":      `{"neighbours": {"repeats": 20, "members": 1, "false_alarm": "0.01%"}}`,
		"membership":      `{"membership": {}}`,
		"deanonymization": `{"deanonymization": {"attacks": ["chance"], "confidence": "95%"}}`,
		"attributes":      `{"attributes": {"values": [{}, {}]}}`,
		"matching":        `{"matching": {"pairs": 100}}`,
		"linking":         `{"linking": {"pairs": 100}}`,
		"cross_modal":     `{"cross_modal": {"pairs": 100}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := Audits()
			d := &list[slices.IndexFunc(list, func(d audits.Description) bool { return d.Name == name })]
			f := d.New()
			must.Do(t, json.Unmarshal([]byte(fields), f))
			for _, users := range []int{1, 2, 6, 12} {
				checkTooFew(t, d, &audits.Setting{
					Audits: []audits.Fields{f}, Trained: 5000, TrainedTensors: 5, Data: &audits.Data{Users: users, Seen: users, HeldOutUsers: users},
					Training: audits.Training{Unit: "user", Recipe: privacy.Recipe{Cohort: 1, Rounds: 1, NoiseMultiplier: 1, Delta: 1e-5, Sampling: privacy.Separated}},
				})
			}
		})
	}
}

// A statement names the pairs that it is about: of the pairs of matching only those with a shadow device.
func TestAStatementNamesItsPairs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"matching": "the average precision of pairs with a shadow device is certainly above chance",
		"linking":  "the average precision of pairs of updates is certainly above chance",
	} {
		list := Audits()
		d := &list[slices.IndexFunc(list, func(d audits.Description) bool { return d.Name == name })]
		f := d.New()
		must.Do(t, json.Unmarshal([]byte(`{"`+name+`": {"pairs": 100}}`), f))
		statements := d.Power(&audits.Setting{Audits: []audits.Fields{f}, Data: &audits.Data{Users: 12, Seen: 12}}, nil)
		if len(statements) != 1 || statements[0].Finds != want {
			t.Errorf("%s: %+v, want %q", name, statements, want)
		}
	}
}

func checkTooFew(t *testing.T, d *audits.Description, s *audits.Setting) {
	t.Helper()
	statements := d.Power(s, nil)
	warner, warns := s.Audits[0].(audits.Warner)
	if len(statements) == 0 && !(warns && len(warner.Warnings(s, s.Data)) > 0) {
		t.Errorf("%d users: no statement and no warning", s.Data.Users)
	}
	for _, x := range statements {
		largest := x.Leak.Max
		if d.Name == "neighbours" { // the share of the noise that is there
			largest = x.Leak.Min
		}
		most := x.Power(audits.Question{Sizes: x.Numbers(), Leak: largest})
		if none := most < 1e-3; none != (x.None != "") {
			t.Errorf("%d users, %q: power %g for the largest leak; said is %q", s.Data.Users, x.Name, most, x.None)
		}
	}
}
