package upperbound_test

import (
	"strings"
	"testing"

	"coalmine/privacy"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/upperbound"
	"coalmine/tasks/audits/membership/onerun"
)

// A bound from below that is above the papers' convention says so beside it.
func TestTheConventionThatAnAuditRefutesUnderestimates(t *testing.T) {
	t.Parallel()
	for atLeast, want := range map[float64]string{0.5: "5.00 (1.00)", 2: "5.00 (1.00 underestimates)"} {
		cell := &audits.Cell{
			Privacy:  &privacy.Report{Epsilon: 1, EpsilonProved: 5, Neighbouring: privacy.ReplaceOne, Population: 1000, NoiseMultiplier: 1, Delta: 1e-5},
			Outcomes: []audits.Outcome{&onerun.Outcome{EpsilonLower: atLeast, Delta: 1e-5}},
		}
		outcome := upperbound.Audit.Derive(cell)
		if got := upperbound.Audit.Cell(upperbound.Audit.TableMeasures()[0], outcome); got != want {
			t.Errorf("an audit has %v at least, and the table %q; want %q", atLeast, got, want)
		}
		if note := outcome.(audits.Noter).Note(cell); strings.Contains(note, "an audit has 2.00 at least") != (atLeast == 2) {
			t.Errorf("an audit has %v at least: %s", atLeast, note)
		}
	}
}
