package pld

import (
	"math"
	"math/cmplx"
)

// rise accumulates, less 1, the factor by which losses above a limit multiply the transform
// of the other losses.
type rise struct {
	logs []complex128 // logs of 1 plus the rise
	errs []float64    // errors of logs
}

func newRise(n int) *rise { return &rise{make([]complex128, n), make([]float64, n)} }

// multiply composes with the rounds of a part, given their transforms below and above the limit.
func (r *rise) multiply(below, above transform, rounds, step float64) {
	ratio := math.Exp(above.logMoment - below.logMoment)
	vanished := ratio < minRatio && !math.IsInf(above.logMoment, -1)
	relative := above.fixed + below.fixed + rounding*(8+math.Abs(below.logMoment)+math.Abs(above.logMoment))
	for k := range r.logs {
		y := float64(k) * step
		size, err := cabs(below.values[k]), below.fixed+y*below.perFrequency
		share := above.values[k] / below.values[k] * rotate(y*(below.mean-above.mean)) * complex(ratio, 0)
		off := ratio*(above.fixed+y*above.perFrequency)/(size-err) +
			cabs(share)*(err/(size-err)+relative+rounding*y*(math.Abs(below.mean)+math.Abs(above.mean)))
		left := cabs(1 + share)
		if !(off < left && err < size) || vanished {
			r.errs[k] = math.Inf(1)
			continue
		}
		r.logs[k] += complex(rounds, 0) * log1p(share)
		r.errs[k] -= rounds * math.Log1p(-off/left)
	}
}

// minRatio is the ratio below which numbers lose their digits.
const minRatio = 1e-290

// finish multiplies the transform of the losses below the limit by the rise, and returns the
// largest size of the rise: its value at frequency 0, where all terms have the same phase.
func (r *rise) finish(f *frequencies) (most float64) {
	for k, log := range r.logs {
		by := expm1(log)
		size := cabs(by)
		err := math.Exp(real(log)) * math.Expm1(r.errs[k]+rounding*cmplx.Abs(log))
		f.logSize[k] += math.Log(size)
		f.logMost[k] += math.Log(size + err)
		f.phase[k] += math.Atan2(imag(by), real(by))
		if k == 0 {
			most = size + err
		}
	}
	return most
}

// log1p returns log(1 + z), accurate for small z.
func log1p(z complex128) complex128 {
	x, y := real(z), imag(z)
	return complex(math.Log1p(x*(2+x)+y*y)/2, math.Atan2(y, 1+x))
}

// expm1 returns exp(z) - 1, accurate for small z.
func expm1(z complex128) complex128 {
	sin, cos := math.Sincos(imag(z))
	half := math.Sin(imag(z) / 2)
	return complex(math.Expm1(real(z))*cos-2*half*half, math.Exp(real(z))*sin)
}
