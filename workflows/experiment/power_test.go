package experiment

import (
	"math"
	"strings"
	"testing"
)

// Ten canaries of which each is memorized with probability 0.1: 1 - 0.9^10; with two seeds, 1 - 0.9^20.
func TestThePowerOfCountedCanaries(t *testing.T) {
	t.Parallel()
	for replicates, want := range map[string]float64{"1": 0.6513215599, "2": 0.8784233454} {
		spec := parse(t, minimal, "canaries={user_probability: [1/4], example_probability: [1/2], per_configuration: 10}", "audit={random_sampling: {references: 100000}}", "grid.replicates="+replicates)
		powers := spec.Powers()
		if len(powers) == 0 {
			t.Fatal("no statement")
		}
		p := powers[0]
		if got := p.Of(p.Numbers(), p.Leak.Default); p.Audit != "random_sampling" || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s seeds: %s has the power %v; want %v", replicates, p.Audit, got, want)
		}
	}
}

// One canary among ten references has rank 1 by chance with 1/11.
func TestTooFewForAStatementIsAWarning(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal, "canaries={user_probability: [1/4], example_probability: [1/2], per_configuration: 1}", "audit={random_sampling: {references: 10}}")
	if got := strings.Join(spec.Cells[0].Warnings(), "\n"); !strings.Contains(got, "audit.random_sampling has too few for any statement") {
		t.Errorf("warnings %q", got)
	}
}
