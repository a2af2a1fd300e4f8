package search_test

import (
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/search"
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
audit: {utility: false, search: {batch: 16}, fail_if: {search_extracted: 0}}
`

// A canary that is everywhere is extracted, and certainly so, by looking at a small part of
// the tree; one that is nowhere is not.
func TestAMemorizedCanaryIsExtracted(t *testing.T) {
	t.Parallel()
	report := compiletest.Report(t, searchedFile)
	for _, c := range report.Audit.Canaries() {
		var o search.CanaryOutcome
		must.Do(t, c.Decode(&o))
		inserted := c.Role == audits.Inserted
		if *o.Extracted != inserted || !*o.Complete || *o.Certain < 1 || *o.Sequences != 60*60*60 {
			t.Errorf("%s canary: extracted %v, stopped for %s with %d certain of %v sequences", c.Role, *o.Extracted, *o.Stop, *o.Certain, *o.Sequences)
		}
		if same := strings.Join(o.Results[0].Words, " ") == strings.Join(c.Words[1:], " "); same != inserted {
			t.Errorf("%s canary %q: the first of the results is %q", c.Role, c.Words, o.Results[0].Words)
		}
		if inserted && (*o.Rank != 1 || !*o.RankExact || *o.CanaryLogPerplexity != o.Results[0].LogPerplexity || *o.Ratio < 1000) {
			t.Errorf("the canary has place %d at %v, %v times fewer nodes than sequences; its extraction costs %v", *o.Rank, *o.CanaryLogPerplexity, *o.Ratio, o.Results[0].LogPerplexity)
		}
	}
	var v search.Outcome
	compiletest.Outcome(t, &report, "search", &v)
	if v.Extracted != 1 || v.Of != 1 || v.Searches != 2 || v.Lowest == nil {
		t.Errorf("outcome %+v", v)
	}
	cell := &audits.Cell{Outcomes: []audits.Outcome{&v}}
	if b := search.Audit.Limits[0].Breaches(cell, new(0)); len(b) != 1 || b[0] != "search_extracted is 1, above the limit of 0" {
		t.Errorf("breaches %q", b)
	}
}

// A search that needs more than its limit says so, and keeps its findings.
func TestASearchThatIsCutSaysSo(t *testing.T) {
	t.Parallel()
	report := compiletest.Report(t, searchedFile, "audit.search.expansions=40", "training.rounds=1")
	var v search.Outcome
	compiletest.Outcome(t, &report, "search", &v)
	if v.CutByExpansions != 2 || !strings.Contains(v.Note(&audits.Cell{Name: "c01"}), "Raise the limit to go on") {
		t.Errorf("outcome %+v, note %q", v, v.Note(&audits.Cell{Name: "c01"}))
	}
	for _, c := range report.Audit.Canaries() {
		var o search.CanaryOutcome
		must.Do(t, c.Decode(&o))
		if *o.Complete || *o.Stop != search.Expansions || *o.Expanded < 40 || *o.Expanded > 40+15 {
			t.Errorf("stopped for %s after %d nodes, complete: %v", *o.Stop, *o.Expanded, *o.Complete)
		}
	}
}
