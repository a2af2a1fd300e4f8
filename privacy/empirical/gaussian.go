package empirical

// GaussianShift returns how many deviations apart two normal distributions of equal deviation are that are
// (epsilon, delta)-indistinguishable and no more: the mu of the Gaussian mechanism. epsilon is 0 or above and
// finite, delta within (0, 1).
func GaussianShift(epsilon, delta float64) float64 {
	costs, unit := epsilonOf(delta), Normal{Deviation: 1}
	return greatest(func(mu float64) bool { return costs(unit, Normal{mu, 1}) <= epsilon })
}
