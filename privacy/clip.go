package privacy

import (
	"fmt"
	"math"

	"coalmine/internal/numbers"
)

// ClipScale returns the factor, between 0 and 1, that brings an update of the
// given L2 norm to at most clip: min(1, clip/norm), the flat clipping of
// McMahan et al. 2018 (Learning Differentially Private Recurrent Language
// Models, section 2). clip is positive.
//
// An update whose norm is NaN or infinite gets 0: it has no direction to keep.
// Multiplying it by 0 would leave NaN in it, so a caller must leave such an
// update out of the sum instead.
func ClipScale(norm, clip float64) float64 {
	switch {
	case !numbers.IsFinite(norm):
		return 0
	case norm <= clip:
		return 1
	}
	return clip / norm
}

// ClipQuantile makes the clip norm follow a quantile of the norms of the
// updates (Andrew, Thakkar, McMahan and Ramaswamy 2021, Differentially Private Learning with
// Adaptive Clipping, section 3). Each client of a round reports one bit: whether its norm was at
// most the clip norm. The server sees only the share of these clients, with noise.
type ClipQuantile struct {
	// Target is the quantile to follow, within (0, 1). The paper uses 0.5.
	Target float64 `json:"quantile"`
	// LearningRate is the rate of the geometric update, above 0. The paper
	// uses 0.2.
	LearningRate float64 `json:"learning_rate"`
	// CountNoise is the standard deviation of the noise on the number of
	// clients at or below the clip norm, above 0. The paper uses cohort/20.
	CountNoise float64 `json:"count_noise"`
}

// CountedClipping returns adaptive clipping with the fields that accounting uses. The quantile and
// the learning rate, which do not affect accounting, are the paper's.
func CountedClipping(countNoise float64) *ClipQuantile {
	return &ClipQuantile{Target: 0.5, LearningRate: 0.2, CountNoise: countNoise}
}

// Validate reports the first field that is out of range.
func (q ClipQuantile) Validate() error {
	switch {
	case !(q.Target > 0 && q.Target < 1):
		return fmt.Errorf("clip quantile %v: expected a number above 0 and below 1", q.Target)
	case !positive(q.LearningRate):
		return fmt.Errorf("clip quantile learning rate %v: expected a positive number", q.LearningRate)
	case !positive(q.CountNoise):
		return fmt.Errorf("clip quantile count noise %v: expected a positive standard deviation", q.CountNoise)
	}
	return nil
}

// Next returns the clip norm of the next round. below is the number of participating clients with a
// norm of at most clip; noise is a draw from the standard normal distribution; cohort is the
// (expected) number of clients, which divides the noisy count even if the round had more or fewer
// clients.
//
// Each client counts as its bit less one half (Andrew et al. 2021, section
// 3.1), so that one client more or less moves the count by one half even if the
// size of a round is random.
func (q ClipQuantile) Next(clip float64, below, clients int, noise float64, cohort int) float64 {
	count := float64(below) - float64(clients)/2
	share := 0.5 + (count+q.CountNoise*noise)/float64(cohort)
	return clip * math.Exp(-q.LearningRate*(share-q.Target))
}

// UpdateNoise returns the noise multiplier to apply to the sum of the updates
// so that the sum and the noisy count together cost as much as one Gaussian
// mechanism with noise multiplier total:
//
//	(total^-2 - (2 CountNoise)^-2)^(-1/2)
//
// (Andrew et al. 2021, Theorem 1). The 2 is there because a bit shifted by one
// half has sensitivity 1/2. The formula holds for adding or removing a user
// and, because both sensitivities double, for replacing one. The result is above total. It is an
// error if the count costs as much as total allows.
func (q ClipQuantile) UpdateNoise(total float64) (float64, error) {
	if err := q.Validate(); err != nil {
		return 0, err
	}
	if total == 0 {
		return 0, nil
	}
	if !positive(total) {
		return 0, noiseError(total)
	}
	ratio := total / (2 * q.CountNoise)
	if ratio >= 1 {
		return 0, fmt.Errorf("noise multiplier %v with adaptive clipping: the noise on the count, standard deviation %v, "+
			"uses up the whole budget; raise the count noise above %v", total, q.CountNoise, total/2)
	}
	return total / math.Sqrt((1-ratio)*(1+ratio)), nil
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }
