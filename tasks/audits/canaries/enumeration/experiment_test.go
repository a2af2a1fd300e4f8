package enumeration_test

import (
	"math"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/enumeration"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/workflows/plan/compile/compiletest"
)

// enumeratedFile has a canary that is in most examples of most users, and one that is in
// none.
const enumeratedFile = `
name: enumerated
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}}
canaries: {words: 4, per_configuration: 1, user_probability: 80%, example_probability: 80%, held_back: 3}
model: {embedding: 8, units: 16}
training: {rounds: 30, cohort: 20, chunks: 2, client: {learning_rate: 2}}
audit: {utility: false, enumeration: {}, random_sampling: {references: 20000}}
`

// On a trained model: the canary with most copies is the most likely of the whole space,
// and a sampled exposure lies about the exact one. The seed is fixed; that one of three
// controls is off by more than five standard errors has probability 2e-6.
func TestATrainedModelHasItsCanaryAtRank1(t *testing.T) {
	t.Parallel()
	report := compiletest.Report(t, enumeratedFile)
	var v enumeration.Outcome
	compiletest.Outcome(t, &report, "enumeration", &v)
	if v.Memorized != 1 || v.Of != 1 || v.Sequences != 56*56*56 && v.Sequences != 60*60*60 {
		t.Errorf("outcome %+v", v)
	}
	for _, c := range report.Audit.Canaries() {
		var exact enumeration.CanaryOutcome
		var sampled randomsampling.CanaryOutcome
		must.Do(t, c.Decode(&exact))
		must.Do(t, c.Decode(&sampled))
		if *exact.LogPerplexity != *sampled.LogPerplexity {
			t.Errorf("canary %q costs %v by enumeration, %v by sampling", c.Words, *exact.LogPerplexity, *sampled.LogPerplexity)
		}
		if (*exact.Rank == 1) != (c.Role == audits.Inserted) {
			t.Errorf("%s canary %q has rank %d", c.Role, c.Words, *exact.Rank)
		}
		if off := math.Abs(*sampled.Exposure - *exact.Exposure); c.Role == audits.HeldBack && off > 5*sampled.Exposed().Error {
			t.Errorf("control %q: exposure %v sampled with error %v, exact %v", c.Words, *sampled.Exposure, sampled.Exposed().Error, *exact.Exposure)
		}
	}
}
