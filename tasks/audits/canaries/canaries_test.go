package canaries_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/canaries/beamsearch"
	"coalmine/tasks/audits/canaries/enumeration"
	"coalmine/tasks/audits/canaries/probabilisticextraction"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/audits/canaries/skewnormal"
	"coalmine/workflows/plan/plantest"
)

// memorizedFile has one canary that is in most examples of most users, and four that are in none.
const memorizedFile = `
name: memorized
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}}
canaries: {words: 4, per_configuration: 1, user_probability: 80%, example_probability: 80%, held_back: 4}
model: {embedding: 8, units: 16}
training: {rounds: 30, cohort: 20, chunks: 2, client: {learning_rate: 2}}
audit:
  utility: false
  random_sampling: {references: 20000}
  enumeration: {}
  skew_normal: {references: 4000, bootstrap: 20}
  beam_search: {width: 2}
  search: {batch: 16}
  probabilistic_extraction: {prefixes: [2, 3], queries: 20, chance: 99%}
`

// Each audit finds the canary of a trained model, and no other: it is the likeliest of the whole space and
// of a small part of the tree, sampled soon, and in the tail that the fit extrapolates. A sampled exposure is
// about the exact one: the seed is fixed; that one of four controls is off by more than five standard errors
// has probability 3e-6. Audits agree about the cost of a sequence, and results of a canary that was not found
// have the preferred one.
func TestEachAuditFindsTheCanaryOfATrainedModel(t *testing.T) {
	t.Parallel()
	report := plantest.CellReport(t, memorizedFile)
	list := report.Audit.Canaries()
	if len(list) != 5 {
		t.Fatalf("%d canaries; expected 1 inserted and 4 held back", len(list))
	}
	for _, c := range list {
		var sampled randomsampling.CanaryOutcome
		var exact enumeration.CanaryOutcome
		var fitted skewnormal.CanaryOutcome
		var beam beamsearch.CanaryOutcome
		var found search.CanaryOutcome
		var drawn probabilisticextraction.CanaryOutcome
		for _, o := range []any{&sampled, &exact, &fitted, &beam, &found, &drawn} {
			must.Do(t, c.Decode(o))
		}
		inserted := c.Role == audits.Inserted
		if (*exact.Rank == 1) != inserted || *beam.Found != inserted || *found.Extracted != inserted || *drawn.Extractable != inserted || *drawn.Greedy != inserted {
			t.Errorf("%s canary: rank %d, found %v, extracted %v, extractable %v, greedy %v", c.Role, *exact.Rank, *beam.Found, *found.Extracted, *drawn.Extractable, *drawn.Greedy)
		}
		if *sampled.LogPerplexity != *exact.LogPerplexity || *fitted.LogPerplexity != *exact.LogPerplexity {
			t.Errorf("canary %q costs %v by enumeration, %v by sampling, %v by the fit", c.Words, *exact.LogPerplexity, *sampled.LogPerplexity, *fitted.LogPerplexity)
		}
		if off := math.Abs(*sampled.Exposure - *exact.Exposure); !inserted && off > 5*sampled.Exposed().Error {
			t.Errorf("control %q: exposure %v sampled with error %v, exact %v", c.Words, *sampled.Exposure, sampled.Exposed().Error, *exact.Exposure)
		}
		if inserted && (*fitted.References != 0 || !(*fitted.Exposure > 10)) {
			t.Errorf("the inserted canary: %v bits above %d references", *fitted.Exposure, *fitted.References)
		}
		if slices.Equal(beam.Best, c.Words[1:]) != inserted || len(beam.Best) != 3 {
			t.Errorf("%s canary %q: the best is %q", c.Role, c.Words, beam.Best)
		}
		if same := *beam.LogPerplexity == *beam.CanaryLogPerplexity; same != inserted || *beam.LogPerplexity > *beam.CanaryLogPerplexity {
			t.Errorf("%s canary %q costs %v, %q in its place %v", c.Role, c.Words, *beam.CanaryLogPerplexity, beam.Best, *beam.LogPerplexity)
		}
		if !*found.Complete || *found.Certain < 1 || *found.Sequences != 60*60*60 || slices.Equal(found.Results[0].Words, c.Words[1:]) != inserted {
			t.Errorf("%s canary %q: stopped for %s with %d certain of %v sequences, the first is %q", c.Role, c.Words, *found.Stop, *found.Certain, *found.Sequences, found.Results[0].Words)
		}
		if inserted && (*found.Rank != 1 || !*found.RankExact || *found.CanaryLogPerplexity != found.Results[0].LogPerplexity || *found.Ratio < 1000) {
			t.Errorf("the canary has place %d at %v, %v times fewer nodes than sequences; its extraction costs %v", *found.Rank, *found.CanaryLogPerplexity, *found.Ratio, found.Results[0].LogPerplexity)
		}
		if len(drawn.Prefixes) != 3 || drawn.Prefixes[2].Prefix != 3 {
			t.Errorf("%s canary: prefixes %+v", c.Role, drawn.Prefixes)
		}
	}

	var exact enumeration.Outcome
	if plantest.Outcome(t, &report, "enumeration", &exact); exact.Memorized != 1 || exact.Of != 1 || exact.Sequences != 60*60*60 {
		t.Errorf("enumeration: %+v", exact)
	}
	var fitted skewnormal.Outcome
	if plantest.Outcome(t, &report, "skew_normal", &fitted); len(fitted.Fits) != 5 {
		t.Errorf("%d fits for 5 prefixes", len(fitted.Fits))
	}
	var found search.Outcome
	if plantest.Outcome(t, &report, "search", &found); found.Extracted != 1 || found.Of != 1 || found.Searches != 5 || found.Lowest == nil {
		t.Errorf("search: %+v", found)
	}
	var drawn probabilisticextraction.Outcome
	if plantest.Outcome(t, &report, "probabilistic_extraction", &drawn); drawn.Extractable != 1 || drawn.Greedy != 1 || drawn.Of != 1 || len(drawn.Curves) != 2 {
		t.Errorf("probabilistic extraction: %+v", drawn)
	}
	if got := auditstest.Texts(&probabilisticextraction.Audit, &drawn); got[0] != "1/1 (20, 0.99)" || got[1] != "1/1" {
		t.Errorf("texts %q", got)
	}
	cell := &audits.Cell{Outcomes: []audits.Outcome{&found, &drawn}}
	breaches := append(search.Audit.Limits[0].Breaches(cell, new(0)), probabilisticextraction.Audit.Limits[0].Breaches(cell, new(0))...)
	if want := []string{"search_extracted is 1, above the limit of 0", "probabilistic_extractable is 1, above the limit of 0"}; !slices.Equal(breaches, want) {
		t.Errorf("breaches %q, want %q", breaches, want)
	}
}

// A search that needs more than its limit says so, and keeps its findings.
func TestCutSearchReportsItsLimit(t *testing.T) {
	t.Parallel()
	report := plantest.CellReport(t, memorizedFile, "audit.search.expansions=40", "training.rounds=1",
		"audit.random_sampling=null", "audit.enumeration=null", "audit.skew_normal=null", "audit.beam_search=null", "audit.probabilistic_extraction=null")
	var v search.Outcome
	plantest.Outcome(t, &report, "search", &v)
	if v.CutByExpansions != 5 || !strings.Contains(v.Note(&audits.Cell{Name: "c01"}), "Raise the limit to go on") {
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
