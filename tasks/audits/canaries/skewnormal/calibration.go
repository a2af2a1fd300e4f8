package skewnormal

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"coalmine/internal/seeds"
	"coalmine/internal/skewnormal"
	"coalmine/tasks"
)

// calibrate says how often references of the fitted distribution would fail the test as the
// others do: by a parametric bootstrap (Stute, Manteiga and Quindimil 1993), which knows that
// the fit has errors of its own. Each time as many references are drawn from the fit, in two
// halves of the same sizes, of which the first is fitted and the second tested. The p-value is
// (1 + those with the statistic or a larger one) / (1 + all), so that the least is 1 / (1 + all).
func (p *Params) calibrate(ctx context.Context, fit *Fit) error {
	if p.Calibration == 0 {
		return nil
	}
	larger := 0
	for k := range p.Calibration {
		if err := ctx.Err(); err != nil {
			return err
		}
		drawn := draws(seeds.Stream(p.Seed, seeds.Calibration, uint64(k)), fit.Distribution, fit.Fitted+fit.Tested)
		_, ks, err := fitAndTest(drawn, fit.Fitted)
		if err != nil {
			return tasks.Permanent(fmt.Errorf("fit %d of the calibration: %w; use more references", k, err))
		}
		if ks >= fit.KS {
			larger++
		}
	}
	fit.CalibratedP = new(float64(1+larger) / float64(1+p.Calibration))
	return nil
}

// draws are n draws from a distribution, of two normals each, by Azzalini (1985): with
// delta = shape / sqrt(1 + shape²), delta |z| + sqrt(1 - delta²) z' is standard skew-normal.
func draws(rng *rand.Rand, d skewnormal.Distribution, n int) []float64 {
	root := math.Sqrt(1 + float64(d.Shape*d.Shape))
	out := make([]float64, n)
	for i := range out {
		folded, other := math.Abs(rng.NormFloat64()), rng.NormFloat64()
		out[i] = d.Location + float64(d.Scale*((float64(d.Shape*folded)+other)/root))
	}
	return out
}
