package attributes

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// The power of the closed form is that of accuracies that are drawn and judged as real ones, up to 11 points: of
// 200 simulated audits the standard error is up to 3.6 points, and few users are no normal numbers.
func TestPowerIsThatOfSimulatedAccuracies(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		users         int
		share, chance float64
	}{{20, 0.7, 0.5}, {50, 0.4, 0.5}, {60, 0.2, 0.25}, {100, 0.2, 0.5}} {
		rng := rand.New(rand.NewPCG(36, uint64(i)))
		const trials = 200
		found := 0
		for range trials {
			right, most, sent := make([]float64, c.users), make([]float64, c.users), make([]float64, c.users)
			for u := range sent {
				sent[u] = 1
				right[u], most[u] = draw(rng, c.share+(1-c.share)*c.chance), draw(rng, c.chance)
			}
			if floats.Sum(most) > 0 && Interval(rng.Uint64(), right, most, sent).Low > 1 {
				found++
			}
		}
		power := accuracyPower(c.share+(1-c.share)*c.chance, c.chance, 1, c.users)
		share := float64(found) / trials
		t.Logf("%+v: power %.3f, found %.3f", c, power, share)
		if math.Abs(power-share) > 0.11 { // standard error at most 0.036
			t.Errorf("%+v: power %.3f, found %.3f", c, power, share)
		}
	}
}

func draw(rng *rand.Rand, p float64) float64 {
	if rng.Float64() < p {
		return 1
	}
	return 0
}
