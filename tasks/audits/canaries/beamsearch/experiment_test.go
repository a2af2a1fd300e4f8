package beamsearch_test

import (
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/beamsearch"
	"coalmine/workflows/plan/compile/compiletest"
)

// searchedFile has one canary that is in every example of most users, and one that is in
// none.
const searchedFile = `
name: searched
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}}
canaries: {words: 4, per_configuration: 1, user_probability: 80%, example_probability: 80%, held_back: 1}
model: {embedding: 8, units: 16}
training: {rounds: 30, cohort: 20, chunks: 2, client: {learning_rate: 2}}
audit: {utility: false, beam_search: {width: 2}}
`

// If a canary was not found, the results hold the model's preferred continuation of
// its prefix, and the costs of both.
func TestResultsHaveWhatWasFoundInPlaceOfACanary(t *testing.T) {
	t.Parallel()
	report := compiletest.Report(t, searchedFile)
	found := map[audits.Role]bool{audits.Inserted: true, audits.HeldBack: false}
	for _, c := range report.Audit.Canaries() {
		var o beamsearch.CanaryOutcome
		must.Do(t, c.Decode(&o))
		if *o.Found != found[c.Role] || slices.Equal(o.Best, c.Words[1:]) != *o.Found || len(o.Best) != 3 {
			t.Errorf("%s canary %q: found %v, the best is %q", c.Role, c.Words, *o.Found, o.Best)
		}
		if same := *o.LogPerplexity == *o.CanaryLogPerplexity; same != *o.Found || *o.LogPerplexity > *o.CanaryLogPerplexity {
			t.Errorf("%s canary %q costs %v, %q in its place %v", c.Role, c.Words, *o.CanaryLogPerplexity, o.Best, *o.LogPerplexity)
		}
		delete(found, c.Role)
	}
	if len(found) > 0 {
		t.Errorf("no canaries of the roles %v", found)
	}
}
