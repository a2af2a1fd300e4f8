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
