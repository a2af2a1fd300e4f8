package audits

import (
	"math/rand/v2"
	"testing"
)

// The answers to questions with Enough are those of the whole simulation, by fewer audits; a statement about the same
// evidence draws none again.
func TestASimulationEndsWhenItsAnswerIsKnown(t *testing.T) {
	t.Parallel()
	drawn := 0
	draw := func(sizes []int, leak float64) func(*rand.Rand) float64 {
		return func(rng *rand.Rand) float64 { drawn++; return rng.Float64() + leak }
	}
	above := func(_ []int, limit float64) func(float64) bool {
		return func(x float64) bool { return x > limit }
	}
	for _, leak := range []float64{0, 0.3, 0.79, 0.8, 0.81, 1} {
		whole := Simulated(Trials, 1, draw, above)(Question{Sizes: []int{3}, Leak: leak})
		drawn = 0
		s := NewSimulation(Trials, draw)
		power := s.Power(1, above)
		enough := func(power float64) bool { return power >= 0.8 }
		found := power(Question{Sizes: []int{3}, Leak: leak, Enough: enough})
		if enough(found) != enough(whole) {
			t.Errorf("leak %g: power %g by %d audits, %g by all", leak, found, drawn, whole)
		}
		if few := leak == 0 || leak == 0.3 || leak == 1; few && drawn > Trials*9/10 {
			t.Errorf("leak %g: %d audits of %d decide that the power is %g", leak, drawn, Trials, whole)
		}
		if again := power(Question{Sizes: []int{3}, Leak: leak}); again != whole {
			t.Errorf("leak %g: power %g after the question, want %g", leak, again, whole)
		}
		if s.Power(2, above)(Question{Sizes: []int{3}, Leak: leak}); drawn != Trials {
			t.Errorf("leak %g: %d audits are drawn for two statements, want %d", leak, drawn, Trials)
		}
	}
}
