package privacy

import (
	"math"

	"coalmine/privacy/pld"
)

// lossDistribution bounds the proved epsilon by the privacy loss distribution,
// or returns nil where the distribution of package pld does not hold.
func (m *Meter) lossDistribution() (*Interval, error) {
	if !m.scheme.lossDistribution {
		return nil, nil
	}
	if m.recipe.NoiseMultiplier == 0 {
		none := Epsilon(math.Inf(1))
		return &Interval{Lower: none, Upper: none}, nil
	}
	step := pld.Step{Rate: m.rate(), Sigma: m.sigmaProved, Rounds: m.counted(m.recipe.Rounds)}
	if m.scheme.participations != nil {
		step.Rate = 1
	}
	bounds, err := pld.Epsilon([]pld.Step{step}, m.recipe.Delta)
	if err != nil {
		return nil, err
	}
	return &Interval{Lower: Epsilon(bounds.Lower), Upper: Epsilon(bounds.Upper)}, nil
}
