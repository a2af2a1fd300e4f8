package natural_test

import (
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/natural"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/plantest"
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
func TestSecretsExcludeSanitizedText(t *testing.T) {
	t.Parallel()
	found := func(sets ...string) map[string]int {
		report := plantest.CellReport(t, sanitizedFile, sets...)
		var v natural.Outcome
		plantest.Outcome(t, &report, "natural", &v)
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
func TestSecretsAreSearchedOnRequest(t *testing.T) {
	t.Parallel()
	for search, want := range map[string]bool{"2000": true, "null": false} {
		report := plantest.CellReport(t, sanitizedFile, "audit.natural.search="+search)
		var v natural.Outcome
		plantest.Outcome(t, &report, "natural", &v)
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

const gatedFile = `
name: gated
data: {source: a.jsonl, level: byte}
training: {cohort: 5, rounds: 5}
audit: {natural: {references: 5000, most: 40}, fail_if: {natural_exposure: 12, natural_found: 3}}
grid: {axes: {seed: [1, 2]}}
`

// As many secrets as are ranked at most may each be above 12 bits; that some are in the text
// is no matter of chance.
func TestALimitOnNaturalSecretsHasItsFalseAlarm(t *testing.T) {
	t.Parallel()
	spec := must.Get(experiment.Parse("gated.yaml", []byte(gatedFile), experiment.Options{}))(t)
	for found, want := range map[int]float64{0: 0, 9: 9, 40: 40, 41: 40} { // states of each secret
		s := spec.Cells[0].Setting()
		s.Data = &audits.Data{Secrets: &found}
		f, _ := audits.FieldsOf[*natural.Fields](s)
		if got := f.States(s) / 6000; got != want {
			t.Errorf("%d secrets in the source: ranks %v, want %v", found, got, want)
		}
	}
	alarms := spec.FalseAlarms()
	if len(alarms) != 1 || alarms[0].Trials != 80 || math.Abs(alarms[0].Probability-(1-math.Pow(1-math.Exp2(-12), 80))) > 1e-12 {
		t.Fatalf("%+v", alarms)
	}
	const want = "audit.fail_if.natural_exposure: 12 gives a false alarm with a probability of at most 0.019 " +
		"(secrets at most in total: 80, cells: 2, if nothing is memorized, and natural secrets are as likely as any others of their form)"
	if got := alarms[0].String(); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestLimitBeyondReferencesIsRejected(t *testing.T) {
	t.Parallel()
	for references, want := range map[string]string{
		"4096": "audit.fail_if.natural_exposure: is 12, which no secret can exceed: exposure is at most log2(4096 references) = 12.00 bits",
		"4097": "",
	} {
		_, err := experiment.Parse("gated.yaml", []byte(gatedFile), experiment.Options{Sets: []string{"audit.natural.references=" + references}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s references: %v, want %q", references, err, want)
		}
	}
}

func TestNoteReportsChanceOfExposure(t *testing.T) {
	t.Parallel()
	bits, none := 10.0, false
	secret := natural.Secret{Pattern: "card", Exposure: &bits, Censored: &none}
	v := &natural.Outcome{Found: 3, Highest: &bits, Secrets: []natural.Secret{secret, {Pattern: "own"}, secret}}
	if note := v.Note(nil); !strings.Contains(note, "as likely as any others of their form, one of 2 has 10.0 bits or more with a probability of at most 0.002") {
		t.Errorf("note %q", note)
	}
}
