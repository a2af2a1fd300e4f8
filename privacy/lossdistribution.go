package privacy

import (
	"math"

	"coalmine/privacy/pld"
)

// lossDistribution bounds the proved epsilon by the privacy loss distribution.
func (m *Meter) lossDistribution() (*Interval, error) {
	b, err := m.lossBounds()
	if err != nil {
		return nil, err
	}
	return &Interval{Lower: Epsilon(b.Lower), Upper: Epsilon(b.Upper), Accountant: inTermsOf(m.recipe.Unit, []string{m.scheme.lossAccountant})[0]}, nil
}

func (m *Meter) lossBounds() (pld.Bounds, error) {
	if m.recipe.NoiseMultiplier == 0 {
		none := math.Inf(1)
		return pld.Bounds{Lower: none, Upper: none}, nil
	}
	step := pld.Step{Rate: m.rate(), Sigma: m.sigmaProved, Rounds: m.counted(m.recipe.Rounds)}
	if m.scheme.participations != nil {
		step.Rate = 1
	}
	return m.scheme.lossDistribution([]pld.Step{step}, m.recipe.Delta)
}
