package privacy

import (
	"math"

	"coalmine/privacy/pld"
)

// Concentrated returns the report with Rho and Mu, what is proved of the mechanism without a
// delta. Both are exact, and sampling lowers neither: over all orders the divergence per order,
// and far out the losses, are those of noise without sampling.
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

// rho is the zero-concentrated privacy of steps together: Gaussian mechanisms add up.
func rho(steps []pld.Step) float64 {
	total := 0.0
	for _, s := range steps {
		if s.Rounds > 0 {
			total += float64(s.Rounds) / s.Sigma / s.Sigma / 2
		}
	}
	return total
}

// gaussian is mu of the Gaussian mechanism whose zero-concentrated privacy e is.
func (e Epsilon) gaussian() Epsilon { return Epsilon(math.Sqrt(2 * float64(e))) }
