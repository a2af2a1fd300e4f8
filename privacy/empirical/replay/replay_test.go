package replay_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/privacy/empirical/replay/replaytest"
	"coalmine/tasks/taskstest"
)

const falseAlarm = 1e-4

func examine(t testing.TB, p *replaytest.Program, repeats int) (*replay.Observations, replay.Finding) {
	t.Helper()
	o, err := replay.Observe(t.Context(), p, replay.Plan{
		Repeats: repeats, States: 2, Moves: 16, Search: 100, NoiseMultiplier: p.NoiseMultiplier, Columns: 5000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return o, replay.Examine(p.Claim(), o, falseAlarm)
}

// found is the test that finds each bug.
var found = map[replaytest.Bug]string{
	replaytest.NoiseMissing:        replay.NoiseTest,
	replaytest.NoiseDivided:        replay.NoiseTest,
	replaytest.NoiseBeforeClip:     replay.NoiseTest,
	replaytest.ClipPerTensor:       replay.SensitivityTest,
	replaytest.ClipAfterMean:       replay.SensitivityTest,
	replaytest.MeanLoss:            replay.SensitivityTest,
	replaytest.ShuffledForPoisson:  replay.EqualTest,
	replaytest.LastBatchSmaller:    replay.SensitivityTest,
	replaytest.DataDependentMean:   replay.OutsideTest,
	replaytest.SameSeed:            replay.RepeatedTest,
	replaytest.SharedNoise:         replay.SharedTest,
	replaytest.AccumulationOnce:    replay.SensitivityTest,
	replaytest.BatchNorm:           replay.SensitivityTest,
	replaytest.MomentumBefore:      replay.OutsideTest,
	replaytest.EmbeddingUnclipped:  replay.SensitivityTest,
	replaytest.TwoChunks:           replay.SensitivityTest,
	replaytest.EvaluationLeaks:     replay.OutsideTest,
	replaytest.NoiseOfRank:         replay.NeighboursTest,
	replaytest.EmbeddingWithout:    replay.ElementsTest,
	replaytest.SeedOfEpoch:         replay.RepeatedTest,
	replaytest.DataDependentNoise:  replay.WholeTest,
	replaytest.DivisorOfCohort:     replay.SensitivityTest,
	replaytest.SameCohort:          replay.OverlapTest,
	replaytest.FixedSizeForPoisson: replay.EqualTest,
}

// sampling is the claim beside which a bug stands.
func sampling(b replaytest.Bug) privacy.Sampling {
	switch b {
	case replaytest.LastBatchSmaller:
		return privacy.Shuffled
	case replaytest.ShuffledForPoisson, replaytest.DivisorOfCohort, replaytest.FixedSizeForPoisson, replaytest.DataDependentMean:
		return privacy.Poisson
	}
	return privacy.FixedSize
}

func TestEveryPlantedBugIsFound(t *testing.T) {
	t.Parallel()
	for _, bug := range replaytest.Bugs() {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			p := replaytest.New(replaytest.Program{Bug: bug, Seed: 1, Population: 60, Cohort: 8, Sampling: sampling(bug), Clip: 0.3, NoiseMultiplier: 1})
			_, f := examine(t, p, 200)
			refutes := func(x replay.Test) bool { return x.Name == found[bug] && x.P*float64(len(f.Tests)) <= falseAlarm }
			if !f.Refuted || !slices.ContainsFunc(f.Tests, refutes) {
				t.Errorf("not found by %q: %+v", found[bug], f)
			}
			t.Logf("p %.2g by %s; sensitivity %.3g, outside %.3g, noise multiplier %.3g [%.3g, %.3g] of %s", f.P, f.By, f.Sensitivity, f.Outside, f.Noise.Measured, f.Noise.Low, f.Noise.High, f.Noise.Part)
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
				Seed: 100 + seed, Population: 30 + int(seed), Cohort: 3 + int(seed%11), Clip: math.Exp2(float64(seed%9) - 6), NoiseMultiplier: 0.3 + float64(seed%5)/2,
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
		p := replaytest.New(replaytest.Program{Bug: bug, Seed: 1, Population: 60, Cohort: 8, Sampling: sampling(bug), Clip: 0.3, NoiseMultiplier: 1})
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
