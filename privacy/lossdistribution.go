package privacy

import (
	"math"

	"coalmine/privacy/pld"
)

// lossDistribution bounds the proved epsilon by the privacy loss distribution,
// or returns nil for cohorts of fixed size: for those, the distribution of
// package pld does not hold.
func (r Recipe) lossDistribution() (*Interval, error) {
	if r.Sampling == FixedSize {
		return nil, nil
	}
	if r.NoiseMultiplier == 0 {
		none := Epsilon(math.Inf(1))
		return &Interval{Lower: none, Upper: none}, nil
	}
	bounds, err := pld.Epsilon([]pld.Step{{
		Rate: r.SamplingRate(), Sigma: r.NoiseMultiplier / r.Sampling.Neighbouring().sensitivity(), Rounds: r.Rounds,
	}}, r.Delta)
	if err != nil {
		return nil, err
	}
	return &Interval{Lower: Epsilon(bounds.Lower), Upper: Epsilon(bounds.Upper)}, nil
}
