package replaytest

import (
	"slices"

	"coalmine/internal/lists"
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
)

// planted has each bug with the claimed sampling and the test that finds it.
var planted = []struct {
	bug      Bug
	sampling privacy.Sampling
	found    string
}{
	{NoiseMissing, privacy.FixedSize, replay.NoiseTest},
	{NoiseDivided, privacy.FixedSize, replay.NoiseTest},
	{NoiseBeforeClip, privacy.FixedSize, replay.NoiseTest},
	{ClipPerTensor, privacy.FixedSize, replay.SensitivityTest},
	{ClipAfterMean, privacy.FixedSize, replay.SensitivityTest},
	{MeanLoss, privacy.FixedSize, replay.SensitivityTest},
	{ShuffledForPoisson, privacy.Poisson, replay.EqualTest},
	{LastBatchSmaller, privacy.Shuffled, replay.SensitivityTest},
	{DataDependentMean, privacy.Poisson, replay.OutsideTest},
	{SameSeed, privacy.FixedSize, replay.RepeatedTest},
	{SharedNoise, privacy.FixedSize, replay.SharedTest},
	{AccumulationOnce, privacy.FixedSize, replay.SensitivityTest},
	{BatchNorm, privacy.FixedSize, replay.SensitivityTest},
	{MomentumBefore, privacy.FixedSize, replay.OutsideTest},
	{EmbeddingUnclipped, privacy.FixedSize, replay.SensitivityTest},
	{TwoChunks, privacy.FixedSize, replay.SensitivityTest},
	{EvaluationLeaks, privacy.FixedSize, replay.OutsideTest},
	{NoiseOfRank, privacy.FixedSize, replay.NeighboursTest},
	{EmbeddingWithout, privacy.FixedSize, replay.ElementsTest},
	{SeedOfEpoch, privacy.FixedSize, replay.RepeatedTest},
	{DataDependentNoise, privacy.FixedSize, replay.WholeTest},
	{DivisorOfCohort, privacy.Poisson, replay.SensitivityTest},
	{SameCohort, privacy.FixedSize, replay.OverlapTest},
	{FixedSizeForPoisson, privacy.Poisson, replay.EqualTest},
	{CohortsTwice, privacy.FixedSize, replay.OverlapTest},
	{NoiseBroadcast, privacy.FixedSize, replay.CopiesTest},
	{NoiseTiled, privacy.FixedSize, replay.CopiesTest},
	{None, privacy.FixedSize, ""},
}

// Bugs lists all bugs.
func Bugs() []Bug {
	bugs := planted[:len(planted)-1]
	return lists.Make(len(bugs), func(i int) Bug { return bugs[i].bug })
}

// Planted returns a small program with a bug and the claim of the right training.
func Planted(b Bug) *Program {
	return New(Program{Bug: b, Seed: 1, Population: 60, Cohort: 8, Sampling: planted[number(b)].sampling, Clip: 0.3, NoiseMultiplier: 1})
}

// Found names the test that finds a bug.
func Found(b Bug) string { return planted[number(b)].found }

func number(b Bug) int { return slices.Index(append(Bugs(), None), b) }
