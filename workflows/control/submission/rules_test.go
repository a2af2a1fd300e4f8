package submission

import (
	"path/filepath"
	"strings"
	"testing"

	"coalmine/tasks/datasets/text"
	"coalmine/workflows/experiment"
)

// Rules of reading are a part of the experiments alone whose data they read otherwise.
func TestReadingRulesChangeKeysOfAffectedData(t *testing.T) {
	t.Parallel()
	plain := words(0, 300)
	marked := strings.ReplaceAll(plain, `"text":"w1 `, `"text":"w1 \u2764\ufe0f `)
	dir := folder(t, "texts", map[string]string{"plain.jsonl": plain, "marked.jsonl": marked, "crowd.jsonl": crowd(40) + marked})
	rules := func(s *Submission) text.Rules { return s.Spec.Cells[0].Experiment.Data.ReadingRules }
	file := func(name string) string { return filepath.Join(dir, name+".jsonl") }

	if s := prepare(t, file("plain")); rules(s) != 0 || report(t, s) != report(t, prepare(t, file("plain"), "data.reading_rules=1")) {
		t.Errorf("data that all rules read alike have the rules %d, or another key than with the first", rules(s))
	}
	s := prepare(t, file("marked"))
	if rules(s) != text.CurrentRules || report(t, s) == report(t, prepare(t, file("marked"), "data.reading_rules=1")) {
		t.Errorf("data that new rules read otherwise have the rules %d, or the key of old ones", rules(s))
	}
	again, err := experiment.ReadSpec(s.Spec.Canonical())
	if err != nil || again.Digest() != s.Spec.Digest() {
		t.Errorf("the record reads back differently: %v", err)
	}
	if label := s.Spec.Cells[0].Label; strings.Contains(label, "rules") {
		t.Errorf("the label is %q", label)
	}
	background := prepare(t, file("plain"), "data.users.words=0", "data.devices={defence: {augment: 2}}", "data.background.source="+file("crowd"))
	if rules(background) != text.CurrentRules {
		t.Errorf("a background that new rules read otherwise: rules %d", rules(background))
	}
}

// A format of canaries is read by the rules of the data, and asks for the current ones if the
// first rules read it otherwise.
func TestCanaryFormatSelectsReadingRules(t *testing.T) {
	t.Parallel()
	dir := folder(t, "texts", map[string]string{"a.jsonl": words(0, 300)})
	format := "canaries.format=\"w1\ufe0f # # #\""
	s := prepare(t, filepath.Join(dir, "a.jsonl"), "canaries.words=null", format)
	e := &s.Spec.Cells[0].Experiment
	if space := e.Canaries.Spaces(&e.Data)[0]; e.Data.ReadingRules != text.CurrentRules || space.Format != "w1 # # #" {
		t.Errorf("the format is %q by the rules %d", space.Format, e.Data.ReadingRules)
	}
	e.Data.ReadingRules = 0 // as a recorded run
	if space := e.Canaries.Spaces(&e.Data)[0]; space.Format != "w1\ufe0f # # #" {
		t.Errorf("the format of a recorded run is %q", space.Format)
	}
}
