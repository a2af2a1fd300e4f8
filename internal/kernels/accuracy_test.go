package kernels

import (
	"math"
	"os"
	"testing"
)

// exhaustive makes the accuracy tests visit every float32 instead of a sample.
var exhaustive = os.Getenv("COALMINE_EXHAUSTIVE") != ""

// functions are the vector functions with their definition and the error that
// their documentation states, in ulp.
var functions = []struct {
	name  string
	of    func(*set) func(dst, x []float32)
	exact func(float64) float64
	ulps  float64
}{
	{"exp", func(s *set) func(dst, x []float32) { return s.exp }, math.Exp, 1},
	{"sigmoid", func(s *set) func(dst, x []float32) { return s.sigmoid }, sigmoidFloat64, 2.5},
	{"tanh", func(s *set) func(dst, x []float32) { return s.tanh }, math.Tanh, 3},
}

func sigmoidFloat64(x float64) float64 {
	if x < 0 {
		return math.Exp(x) / (1 + math.Exp(x))
	}
	return 1 / (1 + math.Exp(-x))
}

// ulps is the distance of got from want in units of the last place of want as
// a float32; 0 for equal infinities and for two NaNs.
func ulps(got float32, want float64) float64 {
	nearest := float32(want)
	if nearest != nearest || math.IsInf(float64(nearest), 0) || math.IsInf(float64(got), 0) {
		if got == nearest || got != got && nearest != nearest {
			return 0
		}
		return math.Inf(1)
	}
	_, exponent := math.Frexp(math.Abs(want))
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(exponent-24, -149))
}

// TestFunctionsAreAccurate visits the float32 in order of their bits: every
// one if COALMINE_EXHAUSTIVE is set, one in 9,973 otherwise.
func TestFunctionsAreAccurate(t *testing.T) {
	t.Parallel()
	stride := uint64(9973)
	if exhaustive {
		stride = 1
	}
	fastest := available()[0]
	for _, f := range functions {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			apply := f.of(fastest)
			x, y := make([]float32, 4096), make([]float32, 4096)
			worst, worstAt := 0.0, float32(0)
			for bits := uint64(0); bits < 1<<32; {
				n := 0
				for ; n < len(x) && bits < 1<<32; n++ {
					x[n] = math.Float32frombits(uint32(bits))
					bits += stride
				}
				apply(y[:n], x[:n])
				for i, v := range x[:n] {
					if e := ulps(y[i], f.exact(float64(v))); e > worst {
						worst, worstAt = e, v
					}
				}
			}
			t.Logf("largest error %.3f ulp, at %x", worst, worstAt)
			if worst > f.ulps {
				t.Errorf("error of %.3f ulp at %x, want at most %v", worst, worstAt, f.ulps)
			}
		})
	}
}
