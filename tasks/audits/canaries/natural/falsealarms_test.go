package natural_test

import (
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits/canaries/natural"
	"coalmine/workflows/experiment"
)

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
	alarms := spec.FalseAlarms()
	if len(alarms) != 1 || alarms[0].Trials != 80 || math.Abs(alarms[0].Probability-(1-math.Pow(1-math.Exp2(-12), 80))) > 1e-12 {
		t.Fatalf("%+v", alarms)
	}
	const want = "audit.fail_if.natural_exposure: 12 gives a false alarm with a probability of at most 0.019 " +
		"(secrets at most in all: 80, cells: 2, if nothing is memorized, and natural secrets are as likely as any others of their form)"
	if got := alarms[0].String(); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestALimitThatReferencesCannotReachIsRefused(t *testing.T) {
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

func TestTheNoteSaysHowOftenChanceAloneExposesAsMuch(t *testing.T) {
	t.Parallel()
	bits, none := 10.0, false
	secret := natural.Secret{Pattern: "card", Exposure: &bits, Censored: &none}
	v := &natural.Outcome{Found: 3, Highest: &bits, Secrets: []natural.Secret{secret, {Pattern: "own"}, secret}}
	if note := v.Note(nil); !strings.Contains(note, "as likely as any others of their form, one of 2 has 10.0 bits or more with a probability of at most 0.002") {
		t.Errorf("note %q", note)
	}
}
