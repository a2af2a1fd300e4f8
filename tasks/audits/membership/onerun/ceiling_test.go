package onerun

import (
	"math"
	"strings"
	"testing"

	"coalmine/privacy"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
)

// 750 guesses about 1,000 canaries of a training through 59,600 records once, of epsilon 8. By SciPy the best
// guessers are right 649.976, 583.434 and 389.403 times; curves err to the safe side by less than a guess.
func TestCeilingsFallWithTheSightOfTheAttacker(t *testing.T) {
	t.Parallel()
	p := BoundParams{
		KPlus: 375, KMinus: 375, Delta: 1e-5, Confidence: 0.95, Neighbouring: privacy.ReplaceOne, Unit: "record",
		Null: &Null{Cohort: 500, Rounds: 118, Sampling: privacy.Shuffled, NoiseMultiplier: 1.2, Records: true},
	}
	counts := population.PartitionMetrics{Counts: population.Counts{Users: 2000, Examples: 59_600}}
	got, err := p.ceilings(1000, counts)
	if err != nil || len(got) != 3 {
		t.Fatalf("ceilings %+v (%v)", got, err)
	}
	for i, want := range []struct {
		Attacker
		correct float64
	}{{OfMechanism, 649.976}, {OfText, 583.434}, {OfLastModel, 389.4}} {
		if c := got[i]; c.Attacker != want.Attacker || math.Abs(float64(c.Correct)-want.correct) > 1 || c.TradeOffEpsilonLower == nil {
			t.Errorf("ceiling %+v, want about %g of %s", c, want.correct, want.Attacker)
		}
	}
	if got[1].EpsilonLower >= got[0].EpsilonLower || got[2].EpsilonLower != 0 {
		t.Errorf("bounds %+v", got)
	}
	p.Vectors, p.Null.Independent = &VectorParams{}, true
	if vectors, err := p.ceilings(1000, counts); err != nil || len(vectors) != 1 || *vectors[0].TradeOffEpsilonLower <= *got[0].TradeOffEpsilonLower {
		t.Errorf("ceilings of vectors %+v (%v)", vectors, err)
	}
	p.Null.NoiseMultiplier = 0
	if none, err := p.ceilings(1000, counts); err != nil || none != nil {
		t.Errorf("ceilings without a claim: %+v (%v)", none, err)
	}
}

// Two canaries of each kind, whose means are 6 apart and whose pooled deviation is sqrt 2.
func TestLikelihoodsAreEstimatedFrom(t *testing.T) {
	t.Parallel()
	p := BoundParams{Delta: 1e-5, Vectors: &VectorParams{Watch: new(canaries.Watch)}}
	units := []audits.Unit{{Included: true}, {Included: true}, {}, {}}
	e, err := p.estimate(units, []float64{4, 6, -2, 0})
	if err != nil || e == nil || math.Abs(e.Shift-6/math.Sqrt2) > 1e-12 {
		t.Fatalf("estimate %+v (%v)", e, err)
	}
	v := Outcome{Estimate: e}
	if note := v.beside(); !strings.Contains(note, "epsilon is estimated, not bounded") {
		t.Errorf("note %q", note)
	}
	if none, err := p.estimate(units[1:], []float64{4, -2, 0}); err != nil || none != nil {
		t.Errorf("estimate %+v (%v) from one canary", none, err)
	}
	if none, err := p.estimate(units, []float64{4, 6, 0, 0}); err != nil || none != nil { // without noise
		t.Errorf("estimate %+v (%v) from equal scores", none, err)
	}
	p.Vectors = nil
	if none, err := p.estimate(units, []float64{4, 6, -2, 0}); err != nil || none != nil {
		t.Errorf("estimate %+v (%v) of text", none, err)
	}
}
