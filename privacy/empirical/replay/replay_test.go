package replay_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/privacy/empirical/replay/replaytest"
	"coalmine/tasks/taskstest"
)

const falseAlarm = 1e-4

func examine(t testing.TB, p *replaytest.Program, repeats int) (*replay.Observations, replay.Finding) {
	t.Helper()
	o := must.Get(replay.Observe(t.Context(), p, replay.Plan{
		Repeats: repeats, States: 2, Moves: 16, Search: 100, NoiseMultiplier: p.NoiseMultiplier, Columns: 5000,
	}))(t)
	return o, replay.Examine(p.Claim(), o, falseAlarm)
}

// The page docs/method/privacy-audits.md has a row for each planted fault.
func TestEveryPlantedBugIsFound(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../../../docs/method/privacy-audits.md"))(t)
	for _, bug := range replaytest.Bugs() {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			_, f := examine(t, replaytest.Planted(bug), 200)
			refutes := func(x replay.Test) bool {
				return x.Name == replaytest.Found(bug) && x.P*float64(len(f.Tests)) <= falseAlarm
			}
			if !f.Refuted || !slices.ContainsFunc(f.Tests, refutes) {
				t.Errorf("not found by %q: %+v", replaytest.Found(bug), f)
			}
			row := fmt.Sprintf("\n|%s|%s|%.2g|%.3g|%.3g|\n", bug, f.By, f.P, f.Sensitivity, f.Noise.Measured)
			if !strings.Contains(string(page), row) {
				t.Errorf("docs/method/privacy-audits.md has another row than %s", row)
			}
		})
	}
}

// A right training is refuted with a probability of 1e-4 at most, so that one of the 200 is with one of 2%.
func TestRightTrainingsAreNotAccused(t *testing.T) {
	t.Parallel()
	repeats := 40
	if taskstest.Whole() {
		repeats = 200
	}
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := replaytest.New(replaytest.Program{
				Bug: replaytest.Right()[seed%4], Seed: 100 + seed, Population: 30 + int(seed), Cohort: 3 + int(seed%11), Clip: math.Exp2(float64(seed%9) - 6), NoiseMultiplier: 0.3 + float64(seed%5)/2,
				Sampling: []privacy.Sampling{privacy.Poisson, privacy.FixedSize, privacy.Shuffled}[seed%3],
			})
			_, f := examine(t, p, repeats)
			if f.Refuted || f.Sensitivity > 1.001 || f.Outside > 0 {
				t.Errorf("accused: p %g by %s: %+v", f.P, f.By, f)
			}
		})
	}
}

// REPLAY_EXPORT names a folder for observations and findings, which another program checks.
func TestExport(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("REPLAY_EXPORT")
	if folder == "" {
		t.Skip("REPLAY_EXPORT is not set")
	}
	for i, bug := range append(replaytest.Bugs(), replaytest.None) {
		p := replaytest.Planted(bug)
		o, f := examine(t, p, 60)
		data, err := json.Marshal(map[string]any{"bug": bug, "claim": p.Claim(), "observations": o, "finding": f})
		if err == nil {
			err = os.WriteFile(fmt.Sprintf("%s/%02d.json", folder, i), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The upper end of the noise multiplier, by which epsilon_low is computed, is below the truth in at most 2.5% of
// right trainings, and the interval misses it in at most 5%. Of 500, a right interval misses more than 38 in one
// of 200 cases, and ends below it more than 22 times in one of 200. The page has both shares.
func TestIntervalsOfNoiseCover(t *testing.T) {
	t.Parallel()
	const trials, rounds, width = 500, 30, 40
	rng, covered, above := rand.New(rand.NewPCG(5, 6)), 0, 0
	for range trials {
		o := &replay.Observations{Parts: []replay.Columns{{Name: "w", Lead: width / 2, Count: width / 2}, {Name: "b", Lead: width / 2, Count: width / 2}}}
		for round := range rounds {
			row := make([]float64, width)
			for i := range row {
				row[i] = rng.NormFloat64()
			}
			o.Noise, o.Whole, o.Cohorts = append(o.Noise, row), append(o.Whole, round%2 == 0), append(o.Cohorts, []int{0})
			o.Along = append(o.Along, rng.NormFloat64())
		}
		f := replay.Examine(replay.Claim{NoiseMultiplier: 1, Sampling: privacy.NoSampling, Population: 1, Cohort: 1}, o, falseAlarm)
		if f.Noise.High >= 1 {
			above++
			if f.Noise.Low <= 1 {
				covered++
			}
		}
	}
	if trials-covered > 38 || trials-above > 22 {
		t.Errorf("%d intervals of %d contain the noise, %d ends are above it", covered, trials, above)
	}
	page := string(must.Get(os.ReadFile("../../../docs/method/privacy-audits.md"))(t))
	if want := fmt.Sprintf("%.1f%% of the intervals contain the noise multiplier, and `epsilon_low` is at most the truth in %.1f%%", 100*float64(covered)/trials, 100*float64(above)/trials); !strings.Contains(page, want) {
		t.Errorf("docs/method/privacy-audits.md lacks %q", want)
	}
}

// examined returns a test of rounds with these cohorts and with this noise along the moves.
func examined(t *testing.T, c replay.Claim, name string, cohorts [][]int, along ...float64) replay.Test {
	t.Helper()
	o, rng := &replay.Observations{Parts: []replay.Columns{{Name: "w", Lead: 2, Count: 2}}, Cohorts: cohorts, Along: along}, rand.New(rand.NewPCG(7, 8))
	for round := range cohorts {
		o.Noise, o.Whole = append(o.Noise, []float64{rng.NormFloat64(), rng.NormFloat64()}), append(o.Whole, round%2 == 0)
	}
	c.NoiseMultiplier = 1
	f := replay.Examine(c, o, falseAlarm)
	i := slices.IndexFunc(f.Tests, func(x replay.Test) bool { return x.Name == name })
	if i < 0 {
		t.Fatalf("no test %q: %+v", name, f.Tests)
	}
	return f.Tests[i]
}

// Members of shuffled cohorts take part once an epoch. Members of separated cohorts keep the separation, and take part
// at most as often as claimed.
func TestParticipationsAreAsFarApartAsClaimed(t *testing.T) {
	t.Parallel()
	shuffled := replay.Claim{Sampling: privacy.Shuffled, Population: 4, Cohort: 2}
	separated := replay.Claim{Sampling: privacy.Separated, Population: 4, Cohort: 1, Separation: 3, Participations: 2}
	for _, c := range []struct {
		claim   replay.Claim
		cohorts [][]int
		want    float64
		of      string
	}{
		{shuffled, [][]int{{0, 1}, {2, 3}, {0, 2}, {1, 3}}, 1, ""},
		{shuffled, [][]int{{0, 1}, {2, 3}, {0, 2}, {2, 3}}, 0, "member 2 in round 4"},
		{separated, [][]int{{0}, {1}, {2}, {0}}, 1, ""},
		{separated, [][]int{{0}, {1}, {0}, {2}}, 0, "member 0 in round 3"},
		{separated, [][]int{{0}, {1}, {2}, {0}, {1}, {2}, {0}}, 0, "member 0 in round 7"},
	} {
		if got := examined(t, c.claim, replay.ParticipationTest, c.cohorts); got.P != c.want || got.Of != c.of {
			t.Errorf("%s, cohorts %v: %+v", c.claim.Sampling, c.cohorts, got)
		}
	}
}

// The first two pairs of rounds two apart share no round, so they are counted together; the same holds for the next two.
func TestPairsOfRoundsAreCountedWithPairsOfOtherRounds(t *testing.T) {
	t.Parallel()
	claim := replay.Claim{Sampling: privacy.FixedSize, Population: 100, Cohort: 2}
	cohorts := [][]int{{1, 2}, {3, 4}, {1, 2}, {3, 4}, {5, 6}, {7, 8}}
	if got := examined(t, claim, replay.OverlapTest, cohorts); got.Of != "rounds 2 apart, from round 1" || got.Statistic != 4 || got.Freedom != 4 {
		t.Errorf("%+v", got)
	}
}

// Any of the 100 members may be the one in all four rounds, and the noise may lengthen or shorten all of eight equal
// moves: 100 (2/100)^4 and 2 exp(-8/2).
func TestPValuesCountMembersAndSigns(t *testing.T) {
	t.Parallel()
	claim := replay.Claim{Sampling: privacy.FixedSize, Population: 100, Cohort: 2}
	cohorts := [][]int{{1, 2}, {1, 3}, {1, 4}, {1, 5}}
	if got := examined(t, claim, replay.ParticipationTest, cohorts); got.Of != "member 1" || math.Abs(got.P/1.6e-5-1) > 1e-9 {
		t.Errorf("%+v", got)
	}
	if got := examined(t, claim, replay.ShiftTest, cohorts, slices.Repeat([]float64{0.5}, 8)...); math.Abs(got.P/(2*math.Exp(-4))-1) > 1e-9 {
		t.Errorf("%+v", got)
	}
}

// Of 200 replays of too little noise as many are refuted as the power of the test of all noise says, or
// more, by other tests. As many as the power says, and no more, have an interval below a part of the claimed noise,
// because the only part has the interval of all noise. Both hold within three standard errors, which a right
// power misses in one of 370 cases.
func TestPowerMatchesSimulatedReplays(t *testing.T) {
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
