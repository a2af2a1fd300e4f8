package skewnormal_test

import (
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/enumeration"
	"coalmine/tasks/audits/canaries/skewnormal"
	"coalmine/workflows/plan/compile/compiletest"
)

// fittedFile has a canary that is in most examples of most users, and some that are in
// none.
const fittedFile = `
name: fitted
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}}
canaries: {words: 4, per_configuration: 1, user_probability: 80%, example_probability: 80%, held_back: 4}
model: {embedding: 8, units: 16}
training: {rounds: 30, cohort: 20, chunks: 2, client: {learning_rate: 2}}
audit: {utility: false, enumeration: {}, skew_normal: {references: 4000, bootstrap: 20}}
`

// The canary in the data is far out in the tail, beyond the resolution of the space; the
// fits of the others stand beside their exact exposures.
func TestATrainedModelExposesItsCanary(t *testing.T) {
	t.Parallel()
	report := compiletest.Report(t, fittedFile)
	var v skewnormal.Outcome
	compiletest.Outcome(t, &report, "skew_normal", &v)
	if len(v.Fits) != 5 {
		t.Errorf("%d fits for 5 prefixes", len(v.Fits))
	}
	for _, c := range report.Audit.Canaries() {
		var fitted skewnormal.CanaryOutcome
		var exact enumeration.CanaryOutcome
		must.Do(t, c.Decode(&fitted))
		must.Do(t, c.Decode(&exact))
		if *fitted.LogPerplexity != *exact.LogPerplexity {
			t.Errorf("canary %q costs %v by the fit, %v by enumeration", c.Words, *fitted.LogPerplexity, *exact.LogPerplexity)
		}
		if c.Role == audits.Inserted && (*fitted.References != 0 || !(*fitted.Exposure > 10)) {
			t.Errorf("the inserted canary: %v bits above %d references", *fitted.Exposure, *fitted.References)
		}
	}
}
