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
		for _, p := range powers {
			for _, size := range p.Sizes {
				if strings.HasSuffix(size.Unit, "s") {
					t.Errorf("%s counts %q, the plural of a noun", p.Audit, size.Unit)
				}
			}
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

// The replay of a larger model looks at more elements of the noise, and so has more power; the fields of the audit and
// its sizes are equal.
func TestModelsOfSeveralSizesHaveTheirOwnPower(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal, "training.privacy={clip: 0.1, noise_multiplier: 1, delta: 1e-5}", "audit={neighbours: {repeats: 20}}", "data.vocabulary.size=20", "model.embedding=2", "grid={axes: {model.units: [2, 16]}}")
	powers := spec.Powers()
	if len(powers) != 2 {
		t.Fatalf("%d statements, want one for each model", len(powers))
	}
	small, large := &powers[0], &powers[1]
	if a, b := small.Of(small.Numbers(), 0.99), large.Of(large.Numbers(), 0.99); !(a < b) {
		t.Errorf("power %v with 2 units, %v with 16", a, b)
	}
}

// The audit of words read from updates has neither an interval nor a test.
func TestAuditsWithoutPowerAreNamed(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal, "training.record={layers: [output.bias]}", "audit={update_words: {}}")
	if got := spec.Powerless(); len(got) != 1 || got[0].Audit != "update_words" || len(spec.Powers()) != 0 {
		t.Errorf("%+v, with %d powers", got, len(spec.Powers()))
	}
	if got := parse(t, minimal, "audit={}").Powerless(); got != nil {
		t.Errorf("%+v of no audit", got)
	}
}
