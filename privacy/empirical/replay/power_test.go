package replay_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
)

// Of 200 replays of too little noise as many are refuted as the power of the test of all noise says, or
// more, by other tests. As many as the power says, and no more, have an interval below a part of the claimed noise,
// because the only part has the interval of all noise. Both hold within three standard errors, which a right
// power misses in one of 370 cases.
func TestThePowerIsThatOfReplays(t *testing.T) {
	t.Parallel()
	const trials, rounds, width, share, part = 200, 30, 40, 0.9, 0.965
	rng, refuted, below, tests, intervals := rand.New(rand.NewPCG(3, 4)), 0, 0, 0, 0
	for range trials {
		o := &replay.Observations{Parts: []replay.Columns{{Name: "w", Lead: width, Count: width}}}
		for round := range rounds {
			row := make([]float64, width)
			for i := range row {
				row[i] = share * rng.NormFloat64()
			}
			o.Noise, o.Whole, o.Cohorts = append(o.Noise, row), append(o.Whole, round%2 == 0), append(o.Cohorts, []int{0})
		}
		f := replay.Examine(replay.Claim{NoiseMultiplier: 1, Sampling: privacy.NoSampling, Population: 1, Cohort: 1}, o, falseAlarm)
		tests, intervals = len(f.Tests), f.Noise.Parts
		if f.Refuted {
			refuted++
		}
		if f.Noise.High < part {
			below++
		}
	}
	for part, found := range map[float64]int{0: refuted, part: below} {
		want := replay.Power(rounds*width, share, falseAlarm, tests, intervals, part)
		got, allowed := float64(found)/trials, 3*math.Sqrt(want*(1-want)/trials)
		if got < want-allowed || part > 0 && got > want+allowed || want < 0.2 || want > 0.95 {
			t.Errorf("%g of %d replays are found below %g; the power is %g", got, trials, part, want)
		}
	}
	if tests > replay.MaxTests {
		t.Errorf("%d tests; want at most %d", tests, replay.MaxTests)
	}
}
