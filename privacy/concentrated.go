package privacy

import (
	"math"

	"coalmine/privacy/pld"
)

// Concentrated returns the report with Rho and Mu, which bound the mechanism without a delta.
// Both are exact, and sampling lowers neither: the supremum over orders of the divergence per
// order, and the far tail of the losses, equal those of noise without sampling.
func (r Report) Concentrated() Report {
	if r.Rho == 0 {
		rounds := r.Rounds
		if scheme, err := FindScheme(r.Sampling); err == nil && scheme.participations != nil {
			rounds = scheme.participations(r.Rounds, r.Cohort, r.Population)
		}
		r.Rho = Epsilon(rho([]pld.Step{{Sigma: r.SigmaProved, Rounds: rounds}}))
	}
	r.Mu = r.Rho.gaussian()
	return r
}

// rho returns the joint zero-concentrated privacy of steps, the sum over Gaussian mechanisms.
func rho(steps []pld.Step) float64 {
	total := 0.0
	for _, s := range steps {
		if s.Rounds > 0 {
			total += float64(s.Rounds) / s.Sigma / s.Sigma / 2
		}
	}
	return total
}

// gaussian returns the mu of the Gaussian mechanism with zero-concentrated privacy e.
func (e Epsilon) gaussian() Epsilon { return Epsilon(math.Sqrt(2 * float64(e))) }
