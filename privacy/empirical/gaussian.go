package empirical

import (
	"errors"
	"fmt"
	"math"
)

// GaussianShift returns the mu of the Gaussian mechanism: the largest distance, in deviations, of
// two normal distributions of equal deviation that are (epsilon, delta)-indistinguishable. epsilon
// is 0 or above and finite, delta within (0, 1).
func GaussianShift(epsilon, delta float64) float64 {
	costs, unit := epsilonOf(delta), Normal{Deviation: 1}
	return greatest(func(mu float64) bool { return costs(unit, Normal{mu, 1}) <= epsilon })
}

// GaussianEstimate is an estimate of epsilon, not a bound, from the scores of included and excluded
// canaries, as if both were normal with the same deviation.
type GaussianEstimate struct {
	// Epsilon is the epsilon of a Gaussian mechanism with the shift; 0 for a shift of at most 0.
	Epsilon float64 `json:"epsilon" doc:"epsilon of a Gaussian mechanism with the shift, an estimate and no bound"`
	// StandardError is the error of Epsilon from the finite number of canaries, to first order: of the shift d
	// of n canaries with heads and k with tails it is sqrt(1/n + 1/k + d^2/(2(n+k-2))).
	StandardError float64 `json:"standard_error" doc:"standard error of epsilon from the number of canaries"`
	// Shift is the difference of the mean scores over their pooled deviation.
	Shift float64 `json:"shift" doc:"difference of the mean scores over their pooled deviation"`
}

// EstimateGaussian estimates epsilon at delta, within (0, 1). Independent canaries of a Gaussian mechanism that
// are scored by their likelihood ratio have scores of this kind. It is an error if fewer than two canaries have
// heads or tails, or if scores do not differ or are not finite.
//
// No theorem for finitely many canaries covers the estimate. The idea of normal scores is that of Agrawal et al.
// 2026 (arXiv 2606.12733, abstract); the estimate and its error are derived here.
func EstimateGaussian(included []bool, scores []float64, delta float64) (GaussianEstimate, error) {
	var groups [2][]float64 // tails, heads
	for i, score := range scores {
		side := 0
		if included[i] {
			side = 1
		}
		groups[side] = append(groups[side], score)
	}
	n, k := float64(len(groups[1])), float64(len(groups[0]))
	if min(n, k) < 2 {
		return GaussianEstimate{}, fmt.Errorf("estimate from %g canaries that are in and %g that are out: expected at least 2 of both", n, k)
	}
	with, errWith := FitNormal(groups[1])
	without, errWithout := FitNormal(groups[0])
	if err := errors.Join(errWith, errWithout); err != nil {
		return GaussianEstimate{}, fmt.Errorf("scores of canaries: expected finite ones that differ: %w", err)
	}
	squares := float64(n*with.Deviation*with.Deviation) + float64(k*without.Deviation*without.Deviation)
	shift := (with.Mean - without.Mean) / math.Sqrt(squares/(n+k-2))
	epsilon, err := Epsilon(Normal{Deviation: 1}, Normal{max(0, shift), 1}, delta)
	if err != nil {
		return GaussianEstimate{}, err
	}
	ofShift := math.Sqrt(1/n + 1/k + shift*shift/(2*(n+k-2)))
	return GaussianEstimate{Epsilon: epsilon, StandardError: steepness(epsilon, max(0, shift)) * ofShift, Shift: shift}, nil
}

// steepness is the derivative by the shift of the epsilon of a Gaussian mechanism, h(mu/2 + epsilon/mu) with the
// hazard rate h of the standard normal law: the derivative of delta by mu is the density at mu/2 -
// epsilon/mu, and its derivative by epsilon is -exp(epsilon) times the tail at mu/2 + epsilon/mu.
func steepness(epsilon, mu float64) float64 {
	x := mu / 2
	if epsilon > 0 {
		x += epsilon / mu
	}
	return math.Exp(-x*x/2 - math.Log(2*math.Pi)/2 - logTail(x))
}
