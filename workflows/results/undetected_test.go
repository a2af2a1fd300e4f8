package results

import (
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/workflows/experiment"
)

// One canary among ten references has rank 1 by chance with 1/11, so that no number of canaries would be a find: the note names
// the canary that there is, and no number of canaries above it.
func TestPowerNoteNamesAvailableCanaries(t *testing.T) {
	t.Parallel()
	for perConfiguration, wants := range map[string][]string{
		"1":  {"random_sampling has found nothing, and cannot find a leak of any size: all of the inserted canaries (1) are counted by chance"},
		"40": {"random_sampling has found nothing (a finding, by chance in at most 5%: 33 canaries or more); with 40 canaries and 10 references its power is"},
	} {
		spec := must.Get(experiment.Parse("few.yaml", []byte(`
name: few
data: {source: text.jsonl}
canaries: {user_probability: 1/4, example_probability: 1/2, per_configuration: `+perConfiguration+`}
audit: {random_sampling: {references: 10}}
training: {rounds: 1, cohort: 5}
model: {embedding: 8, units: 8}
`), experiment.Options{}))(t)
		r := &Results{Run: "few-1", Cells: []Cell{{
			Cell: "c01", Label: "few", Status: Done,
			Report: reported(`{"audit": {"random_sampling": {"memorized": 0, "of": ` + perConfiguration + `, "references": 10}, "canaries": []}}`),
		}}}
		v := must.Get(r.view())(t)
		r.Cells[0].undetected = undetected(&spec.Cells[0], v.cells[0].outcomes)
		r.addPowers()
		text := written(t, r, "json")
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("JSON lacks %q:\n%s", want, text)
			}
		}
		if perConfiguration == "1" && strings.Contains(text, "2 canaries") {
			t.Errorf("JSON names 2 canaries, where 1 is inserted:\n%s", text)
		}
	}
}

func TestUndetectedNoteNamesFalseAlarmRate(t *testing.T) {
	t.Parallel()
	u := Undetected{Statement: "neighbours", Find: "the claim is refuted by the noise", chance: 1e-4}
	if want := "(a finding, by chance in at most 0.01%: the claim is refuted by the noise)"; !strings.Contains(u.String(), want) {
		t.Errorf("%s, want %q in it", u, want)
	}
}

// Without a measured utility, an audit without a finding may have audited a model that has learned nothing.
func TestUnmeasuredUtilityIsNotedBesideAuditsWithoutFinding(t *testing.T) {
	t.Parallel()
	canary := `{"words": ["a"], "user_probability": 0.5, "example_probability": 1, "users": 2, "holders": 2, "insertions": 2}`
	for utility, noted := range map[string]bool{"": true, `"utility": {"recall_at_1": 0.1, "perplexity": 9, "tokens": 10},`: false} {
		r := &Results{Run: "few-1", Cells: []Cell{{
			Cell: "c01", Label: "few", Status: Done, Undetected: []Undetected{{Statement: "random_sampling", Sizes: []string{"1 canary"}}},
			Report: reported(`{` + utility + ` "audit": {"random_sampling": {"memorized": 0, "of": 1, "references": 10}, "canaries": [` + canary + `]}}`),
		}}}
		if text := written(t, r, "table"); strings.Contains(text, "utility is not measured") != noted {
			t.Errorf("utility %q: noted: %t, want %t:\n%s", utility, !noted, noted, text)
		}
	}
}

// A table with 0 of 0 memorized canaries says that none of the drawn canaries was inserted.
func TestCanariesThatNobodyDrewAreNoted(t *testing.T) {
	t.Parallel()
	canary := `{"words": ["a"], "user_probability": 0.01, "example_probability": 1, "users": 0, "holders": 0, "insertions": 0}`
	for lists, noted := range map[string]bool{
		`"canaries": [], "never_inserted": [` + canary + `, ` + canary + `]`: true,
		`"canaries": [` + canary + `], "never_inserted": [` + canary + `]`:   false,
		`"canaries": [], "controls": [` + canary + `]`:                       false,
	} {
		r := &Results{Run: "few-1", Cells: []Cell{{
			Cell: "c01", Label: "few", Status: Done,
			Report: reported(`{"audit": {"random_sampling": {"memorized": 0, "of": 0, "references": 10}, ` + lists + `}}`),
		}}}
		if text := written(t, r, "table"); strings.Contains(text, "none of the canaries (2) is in the training data") != noted {
			t.Errorf("%s: noted: %t, want %t:\n%s", lists, !noted, noted, text)
		}
	}
}
