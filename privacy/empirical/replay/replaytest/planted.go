package replaytest

import (
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
)

// Planted returns a small program with a bug and the claim of the right training.
func Planted(b Bug) *Program {
	return New(Program{Bug: b, Seed: 1, Population: 60, Cohort: 8, Sampling: sampling(b), Clip: 0.3, NoiseMultiplier: 1})
}

// Found names the test that finds a bug.
func Found(b Bug) string { return found[b] }

var found = map[Bug]string{
	NoiseMissing:        replay.NoiseTest,
	NoiseDivided:        replay.NoiseTest,
	NoiseBeforeClip:     replay.NoiseTest,
	ClipPerTensor:       replay.SensitivityTest,
	ClipAfterMean:       replay.SensitivityTest,
	MeanLoss:            replay.SensitivityTest,
	ShuffledForPoisson:  replay.EqualTest,
	LastBatchSmaller:    replay.SensitivityTest,
	DataDependentMean:   replay.OutsideTest,
	SameSeed:            replay.RepeatedTest,
	SharedNoise:         replay.SharedTest,
	AccumulationOnce:    replay.SensitivityTest,
	BatchNorm:           replay.SensitivityTest,
	MomentumBefore:      replay.OutsideTest,
	EmbeddingUnclipped:  replay.SensitivityTest,
	TwoChunks:           replay.SensitivityTest,
	EvaluationLeaks:     replay.OutsideTest,
	NoiseOfRank:         replay.NeighboursTest,
	EmbeddingWithout:    replay.ElementsTest,
	SeedOfEpoch:         replay.RepeatedTest,
	DataDependentNoise:  replay.WholeTest,
	DivisorOfCohort:     replay.SensitivityTest,
	SameCohort:          replay.OverlapTest,
	FixedSizeForPoisson: replay.EqualTest,
}

func sampling(b Bug) privacy.Sampling {
	switch b {
	case LastBatchSmaller:
		return privacy.Shuffled
	case ShuffledForPoisson, DivisorOfCohort, FixedSizeForPoisson, DataDependentMean:
		return privacy.Poisson
	}
	return privacy.FixedSize
}
