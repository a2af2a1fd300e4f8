package privacy

import (
	"fmt"
	"math"

	"coalmine/privacy/correlated"
	"coalmine/privacy/pld"
	"coalmine/privacy/rdp"
)

// MaxCorrelatedRounds is the largest number of rounds that correlated noise is accounted for.
// Beyond it the sensitivity takes too long to compute and counts as infinite.
const MaxCorrelatedRounds = 1 << 20

// schedule returns the schedule of a separated training.
func (r Recipe) schedule() schedule {
	return schedule{r.Population, r.Cohort, r.Separation, r.Participations}
}

// strategy returns the strategy behind the noise of the recipe: independent noise by default.
func (r Recipe) strategy() (correlated.Strategy, error) {
	if r.Mechanism == nil {
		return correlated.Independently(), nil
	}
	return r.Mechanism.Strategy()
}

// validateCorrelation reports settings that do not fit the sampling.
func (r Recipe) validateCorrelation() error {
	scheme, err := FindScheme(r.Sampling)
	if err != nil || r.Cohort < 1 || r.Cohort > r.Population {
		return nil // another check reports it
	}
	if !scheme.correlated {
		if r.Mechanism != nil || r.Separation != 0 || r.Participations != 0 {
			return fmt.Errorf("%s sampling with correlated noise or a separation: expected %s sampling, whose users take part with rounds between", r.Sampling, Separated)
		}
		return nil
	}
	if r.Mechanism != nil && r.ClipQuantile != nil {
		return fmt.Errorf("correlated noise with adaptive clipping: expected a fixed clip norm, since the noise of a round takes back that of others")
	}
	if r.Mechanism != nil && r.Rounds > MaxCorrelatedRounds {
		return fmt.Errorf("%d rounds of correlated noise: expected %d at most", r.Rounds, MaxCorrelatedRounds)
	}
	if _, err := r.strategy(); err != nil {
		return err
	}
	return r.schedule().validate()
}

// Participation returns the largest number and the least separation of a user's participations
// in a number of rounds, 1 or more, of a separated training.
func (r Recipe) Participation(rounds int) correlated.Participation {
	s := r.schedule()
	times := s.times(rounds)
	if s.most > 0 {
		times = min(times, s.most)
	}
	return correlated.Participation{Rounds: rounds, Separation: s.groups(), Times: times}
}

// squaredSensitivity returns the squared sensitivity of all outputs of the rounds together, in clip
// norms.
func (m *Meter) squaredSensitivity(rounds int) float64 {
	switch {
	case rounds == 0:
		return 0
	case m.recipe.Mechanism == nil:
		return float64(m.recipe.Participation(rounds).Times)
	case rounds > MaxCorrelatedRounds:
		return math.Inf(1)
	}
	squared, err := m.strategy.SquaredSensitivity(m.recipe.Participation(rounds))
	if err != nil { // NewMeter has validated the strategy
		return math.Inf(1)
	}
	return squared
}

// correlatedCurves returns the divergences of a number of rounds, equal in both conventions.
func (m *Meter) correlatedCurves(rounds int) rdp.Curve {
	return m.proved.Scaled(m.squaredSensitivity(rounds))
}

// correlatedSteps returns the rounds as one Gaussian mechanism.
func (m *Meter) correlatedSteps(rounds int) []pld.Step {
	if rounds == 0 {
		return []pld.Step{{Rate: 1, Sigma: m.sigmaProved}}
	}
	return []pld.Step{{Rate: 1, Sigma: m.sigmaProved / math.Sqrt(m.squaredSensitivity(rounds)), Rounds: 1}}
}

// addCorrelation adds the quantities that determine the cost to a report.
func (m *Meter) addCorrelation(report *Report) {
	if !m.scheme.correlated || report.Rounds == 0 {
		return
	}
	p := m.recipe.Participation(report.Rounds)
	squared := m.squaredSensitivity(report.Rounds)
	report.Separation, report.Participations, report.Sensitivity = p.Separation, p.Times, math.Sqrt(squared)
	report.Rho = Epsilon(squared / 2 / m.sigma / m.sigma)
	if m.recipe.Mechanism != nil {
		report.Mechanism = m.recipe.Mechanism.Kind
	}
}

// correlationAssumptions lists the assumptions of the sensitivity.
func (m *Meter) correlationAssumptions(rounds int) []string {
	if !m.scheme.correlated || rounds == 0 {
		return nil
	}
	p := m.recipe.Participation(rounds)
	out := []string{fmt.Sprintf("every {member} takes part in at most %d {round}s, each %d or more after the one before", p.Times, p.Separation)}
	if m.recipe.Mechanism != nil {
		out = append(out, "the noise of {round}s is correlated, and made of independent noise of that deviation")
	}
	return out
}
