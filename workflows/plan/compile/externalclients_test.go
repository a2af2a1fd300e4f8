package compile_test

import (
	"strings"
	"testing"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/external"
)

const programmed = `
name: programmed
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}, test: {fraction: 10%}}
model: {kind: external}
training:
  client_command: python3 client.py
  class: gpu
  environment: [HF_TOKEN]
  limits: {answer: 60, memory: 2000}
  rounds: 4
  cohort: 6
audit: {}
`

// Every task that asks the program goes to the workers of its class, under its terms, and no
// other does.
func TestTasksThatAskAProgramGoToItsWorkers(t *testing.T) {
	t.Parallel()
	p := compiled(t, programmed, storage.DigestOf(nil))
	specs := []tasks.Spec{p.Cells[0].Chain.PartSpec(3, 1), p.Cells[0].Chain.JoinSpec(3)}
	for _, n := range p.Nodes {
		specs = append(specs, n.Spec)
	}
	asking := 0
	for _, s := range specs {
		asks := false
		for _, in := range s.Inputs {
			asks = asks || in.Name == external.VocabularyInput
		}
		switch {
		case asks && (s.Class != tasks.GPU || !strings.Contains(string(s.Terms), `"answer_seconds":60,"memory":2097152000`) || !strings.Contains(string(s.Terms), "HF_TOKEN")):
			t.Errorf("%s asks the program, and goes to %q under the terms %s", s.Kind, s.Class, s.Terms)
		case asks:
			asking++
		case s.Class != "" || s.Terms != nil:
			t.Errorf("%s does not ask the program, and goes to %q under the terms %s", s.Kind, s.Class, s.Terms)
		}
	}
	if asking < 3 {
		t.Errorf("%d tasks ask the program; expected that of the first model, those of the clients and that of utility", asking)
	}
}

// Where a task runs, and under which terms, changes no key.
func TestTermsDoNotChangeKeys(t *testing.T) {
	t.Parallel()
	key := func(sets ...string) storage.Key {
		return compiled(t, programmed, storage.DigestOf(nil), sets...).Cells[0].Report.Key
	}
	if key() != key("training.class=compute", "training.environment=null", "training.limits=null") {
		t.Error("the class, the environment or the limits of a program make another result")
	}
}
