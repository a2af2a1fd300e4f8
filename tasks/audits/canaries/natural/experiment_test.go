package natural_test

import (
	"testing"

	"coalmine/tasks/audits/canaries/natural"
	"coalmine/workflows/plan/compile/compiletest"
)

// sanitizedFile looks for two words, of which one is removed before the training.
const sanitizedFile = `
name: sanitized
data: {source: none.jsonl, level: byte, users: {words: 300}, sanitize: {own: ["w11 "]}}
canaries: {format: "pin ##", alphabet: digits, per_configuration: 1, user_probability: 1/20, example_probability: 1/10, held_back: 1}
model: {kind: gru, embedding: 4, units: 5}
training: {algorithm: sgd, rounds: 2, cohort: 4, client: {learning_rate: 0.1}}
audit: {utility: false, natural: {own: ["w11 ", "w22 "], references: 20}}
`

// Sanitized text is not in the training text.
func TestSecretsAreThoseThatSanitizationLeaves(t *testing.T) {
	t.Parallel()
	found := func(sets ...string) map[string]int {
		report := compiletest.Report(t, sanitizedFile, sets...)
		var v natural.Outcome
		compiletest.Outcome(t, &report, "natural", &v)
		occurrences := map[string]int{}
		for _, s := range v.Secrets {
			occurrences[s.Pattern] = s.Occurrences
		}
		return occurrences
	}
	before, after := found("data.sanitize=null"), found()
	if before["w11 "] == 0 || before["w22 "] == 0 || after["w11 "] != 0 || after["w22 "] != before["w22 "] {
		t.Errorf("found %v before sanitization, %v after", before, after)
	}
}

// A search is asked for by the number of its nodes; without it nothing of it is said.
func TestSecretsAreSearchedForWhereAsked(t *testing.T) {
	t.Parallel()
	for search, want := range map[string]bool{"2000": true, "null": false} {
		report := compiletest.Report(t, sanitizedFile, "audit.natural.search="+search)
		var v natural.Outcome
		compiletest.Outcome(t, &report, "natural", &v)
		if (v.Extracted != nil) != want || len(v.Secrets) == 0 {
			t.Fatalf("search %s: extracted %v of %d", search, v.Extracted, len(v.Secrets))
		}
		for _, s := range v.Secrets {
			if (s.Expanded != nil && *s.Expanded > 0) != want {
				t.Errorf("search %s: %+v", search, s)
			}
		}
	}
}
