package probabilisticextraction_test

import (
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/canaries/probabilisticextraction"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile/compiletest"
)

// sampledFile has one canary that is in every example of most users, and one that is in
// none.
const sampledFile = `
name: sampled
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}}
canaries: {words: 4, per_configuration: 1, user_probability: 80%, example_probability: 80%, held_back: 1}
model: {embedding: 8, units: 16}
training: {rounds: 30, cohort: 20, chunks: 2, client: {learning_rate: 2}}
audit: {utility: false, probabilistic_extraction: {prefixes: [2, 3], queries: 20, chance: 99%}}
`

func TestAMemorizedCanaryIsSampledSoon(t *testing.T) {
	t.Parallel()
	report := compiletest.Report(t, sampledFile)
	for _, c := range report.Audit.Canaries() {
		var o probabilisticextraction.CanaryOutcome
		must.Do(t, c.Decode(&o))
		if inserted := c.Role == audits.Inserted; *o.Extractable != inserted || *o.Greedy != inserted || len(o.Prefixes) != 3 || o.Prefixes[2].Prefix != 3 {
			t.Errorf("%s canary: log probability %v, %v queries, greedy %v, prefixes %+v", c.Role, *o.LogProbability, *o.Queries, *o.Greedy, o.Prefixes)
		}
	}
	var v probabilisticextraction.Outcome
	compiletest.Outcome(t, &report, "probabilistic_extraction", &v)
	if v.Extractable != 1 || v.Greedy != 1 || v.Of != 1 || len(v.Curves) != 2 {
		t.Errorf("outcome %+v", v)
	}
	if got := auditstest.Texts(&probabilisticextraction.Audit, &v); got[0] != "1/1 (20, 0.99)" || got[1] != "1/1" {
		t.Errorf("texts %q", got)
	}
	cell := &audits.Cell{Outcomes: []audits.Outcome{&v}}
	if b := probabilisticextraction.Audit.Limits[0].Breaches(cell, new(0)); len(b) != 1 || b[0] != "probabilistic_extractable is 1, above the limit of 0" {
		t.Errorf("breaches %q", b)
	}
}

// pairsFile has its secret in the target, which begins after "pin? " and the separator.
const pairsFile = `
name: pairs
data: {source: a.jsonl, level: byte, pairs: true}
canaries: {format: "pin?", target: "pin ##", alphabet: digits, insertions: [1]}
model: {kind: lstm}
training: {cohort: 5, rounds: 5}
audit: {probabilistic_extraction: {prefixes: [9]}}
`

func TestOnlyTheTargetOfAPairIsExtracted(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"audit.probabilistic_extraction.prefix=5":      "",
		"audit.probabilistic_extraction.prefix=4":      "prefix: is 4; expected at least 5, the source and the separator",
		"audit.probabilistic_extraction.prefixes=[4]":  "prefixes[0]: is 4; expected at least 5, the source and the separator",
		"audit.probabilistic_extraction.prefixes=[11]": "prefixes[0]: is 11; expected less than the length of a canary, 11",
		`canaries.format="pin ##"`:                     "canaries have their secret in both texts",
	} {
		_, err := experiment.Parse("pairs.yaml", []byte(pairsFile), experiment.Options{Sets: []string{set}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", set, err, want)
		}
	}
}
