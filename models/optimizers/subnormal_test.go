package optimizers

import (
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/must"
)

// Half of the elements have a gradient in the first steps alone, as those of a unit that dies: their
// squares decay to subnormal numbers. Parameters are the same to the last bit whether these are flushed or
// not, also when the gradient comes back.
func TestFlushedSquaresShowInNoParameter(t *testing.T) {
	t.Parallel()
	config := must.Get(Defaults(RMSProp))(t)
	var results [2][]float32
	for i, flush := range []bool{false, true} {
		o := must.Get(New(config, 200))(t)
		rng, params, grad := rand.New(rand.NewPCG(1, 2)), make([]float32, 200), make([]float32, 200)
		subnormal := false
		for step := range 1500 {
			for k := range grad {
				grad[k] = float32(rng.NormFloat64())
				if k%2 == 0 && step > 10 && step < 1400 {
					grad[k] = 0
				}
			}
			o.Step(params, grad, 0.001)
			if flush {
				FlushSubnormals(o)
			}
			subnormal = subnormal || slices.ContainsFunc(o.State()[0].Values, func(x float32) bool { return x > 0 && x < minNormal })
		}
		if subnormal == flush {
			t.Errorf("flushed %v: subnormal squares %v", flush, subnormal)
		}
		results[i] = params
	}
	if !slices.Equal(results[0], results[1]) {
		t.Error("flushing changes parameters")
	}
}
