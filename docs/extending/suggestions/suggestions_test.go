package suggestions_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"coalmine/docs/extending/suggestions"
	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/audits/canaries/enumeration"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
)

// The project's own audits stand in the list of tasks/audits/all.
func TestMain(m *testing.M) {
	all.Add(suggestions.Audit)
	os.Exit(m.Run())
}

// file has a canary that is in most examples of most users, and four that are in none.
const file = `
name: suggested
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}}
canaries: {words: 4, per_configuration: 1, user_probability: 80%, example_probability: 80%, held_back: 4}
model: {embedding: 8, units: 16}
training: {rounds: 30, cohort: 20, chunks: 2, client: {learning_rate: 2}}
audit: {every: 15, utility: false, enumeration: {prefix: 3}, suggestions: {}, fail_if: {suggested: 0}}
`

// Enumeration after all words but the last ranks the last word, too.
func TestRanksMatchEnumeration(t *testing.T) {
	t.Parallel()
	report := plantest.CellReport(t, file)
	var outcome suggestions.Outcome
	plantest.Outcome(t, &report, "suggestions", &outcome)
	if outcome != (suggestions.Outcome{Suggested: 1, Of: 1, Shown: 3}) {
		t.Errorf("outcome %+v, want the only inserted canary to be suggested", outcome)
	}
	for _, c := range report.Audit.Canaries() {
		var found suggestions.CanaryOutcome
		var exact enumeration.CanaryOutcome
		must.Do(t, c.Decode(&found))
		must.Do(t, c.Decode(&exact))
		if int64(*found.Rank) != *exact.Rank || *found.Suggested != (*found.Rank <= 3) {
			t.Errorf("canary %q: rank %d, suggested %t; by enumeration rank %d", c.Words, *found.Rank, *found.Suggested, *exact.Rank)
		}
	}
}

// finished runs the experiment, and reads its results.
func finished(t *testing.T) *results.Results {
	t.Helper()
	spec := plantest.Resolve(t, file, []storage.Digest{storage.DigestOf(plantest.Text())})
	p := must.Get(compile.Plan(spec))(t)
	var report json.RawMessage
	plantest.Decode(t, plantest.Executor(t, p), p.Cells[0].Report, reports.CellBlob, &report)
	archive, key := storage.NewArchive(storagetest.NewMemory()), p.Cells[0].Report.Key
	blob := must.Get(archive.PutBlob(t.Context(), key, reports.CellBlob, report, storage.Durable))(t)
	if _, _, err := archive.Commit(t.Context(), &storage.Commit{Key: key, Kind: "reports/cell", Attempt: "1", Blobs: []storage.Blob{blob}}); err != nil {
		t.Fatal(err)
	}
	return must.Get(results.Load(t.Context(), archive, &runs.Run{ID: "suggested-1", Spec: runs.Spec{Experiment: spec.Canonical()}}))(t)
}

// The description is all that results know of the audit. A canary that no model has memorized ends
// in one of the 3 words shown, out of 60, with a probability of 0.05.
func TestResultsHaveItsColumnsLimitAndCurve(t *testing.T) {
	t.Parallel()
	r := finished(t)
	if len(r.FalseAlarms) != 1 || math.Abs(r.FalseAlarms[0].Probability-0.05) > 1e-12 {
		t.Errorf("false alarms %+v, want the limit of suggested at 0.05", r.FalseAlarms)
	}
	for format, wants := range map[string][]string{
		"table": {"suggested", "1/1", "suggested: the last word of a canary is among the first 3", "suggested is 1, above the limit of 0"},
		"json":  {`"suggestions": {`, `"suggested_rank": 1`, `"breaches": [`},
		"csv":   {",suggested,suggested_of,"},
		"latex": {"& suggested"},
		"html":  {"Canaries memorized, by round", ">suggestions</text>", "suggested: Inserted canaries whose last word", "gate failed: suggested is 1"},
	} {
		var b bytes.Buffer
		if err := r.Write(&b, format); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		for _, want := range wants {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s lacks %q:\n%s", format, want, b.String())
			}
		}
	}
}

func TestInvalidFieldsAreRejected(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"audit.suggestions={shown: 0}":                                "audit.suggestions.shown: is 0; expected a whole number from 1 to 100",
		"audit.suggestions={show: 1}":                                 "did you mean audit.suggestions.shown?",
		"audit.suggestions=null":                                      "audit.fail_if.suggested",
		"audit.fail_if.suggested=1":                                   "which no cell can exceed",
		"data={source: none.jsonl, level: byte, users: {words: 300}}": "suggests words, but data.level: byte has none",
	} {
		_, err := experiment.Parse("test.yaml", []byte(file), experiment.Options{Sets: []string{set}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v; want %q", set, err, want)
		}
	}
}
