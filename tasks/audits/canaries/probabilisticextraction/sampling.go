package probabilisticextraction

import (
	"cmp"
	"math"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/models"
)

// logProbDrawn is the natural logarithm of the probability that a sample takes the token, or -Inf.
func logProbDrawn(s models.Sampling, logProbs []float32, token int32) float64 {
	if s.Temperature == 1 && s.TopK == 0 {
		return min(0, float64(logProbs[token])) // rounding may exceed 0
	}
	among := logProbs
	if s.TopK > 0 && s.TopK < len(logProbs) {
		if place(logProbs, token) >= s.TopK {
			return math.Inf(-1)
		}
		among = slices.Clone(logProbs)
		slices.SortFunc(among, func(a, b float32) int { return cmp.Compare(b, a) })
		among = among[:s.TopK]
	}
	return min(0, float64(logProbs[token])/s.Temperature-logSum(s, among))
}

// logSum is the logarithm of the sum of exp(l/Temperature).
func logSum(s models.Sampling, logProbs []float32) float64 {
	most, sum := float64(slices.Max(logProbs)), 0.0
	for _, l := range logProbs {
		sum += math.Exp((float64(l) - most) / s.Temperature)
	}
	return most/s.Temperature + math.Log(sum)
}

// place is the number of tokens before one by probability, the lower of equals first.
func place(logProbs []float32, token int32) int {
	higher := lists.Count(logProbs, func(l float32) bool { return l > logProbs[token] })
	return higher + lists.Count(logProbs[:token], func(l float32) bool { return l == logProbs[token] })
}

// EvenChance is the chance of Queries outside an experiment.
const EvenChance = 0.5

// Queries is the smallest number n of independent samples that contain the sequence with the chance: 1 -
// (1-p)^n >= chance (Hayes et al. 2024), for log p the logarithm of its probability in one sample. It is a
// whole number, to a relative 1e-14. It is +Inf if p is 0 or n exceeds float64.
func Queries(logP, chance float64) float64 {
	if math.IsInf(logP, -1) {
		return math.Inf(1)
	}
	var n float64
	if none := numbers.LogOneMinusExp(logP); none < 0 {
		n = math.Log1p(-chance) / none
	} else { // p underflows float64
		n = math.Exp(math.Log(-math.Log1p(-chance)) - logP)
	}
	return max(1, math.Ceil(n*(1-1e-14)))
}
