package skewnormal

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"coalmine/internal/numbers"
)

// ErrConstant reports that all data are equal, so that no distribution with a density
// fits.
var ErrConstant = errors.New("all values are equal")

// MaxShape bounds the shape of a fit. Data on one side of a point fit better the larger the shape; beyond
// MaxShape the difference is negligible.
const MaxShape = 1000

// FitDistribution is the distribution under which the data, two values at least, are the most likely.
//
// The likelihood has a stationary point at shape 0 for any data, and may have a maximum on
// either side of it, so that Newton's method climbs from both sides; the higher maximum
// counts. It is an error if the data are equal or not finite.
func FitDistribution(data []float64) (Distribution, error) {
	mean, deviation := stat.PopMeanStdDev(data, nil)
	switch {
	case !numbers.IsFinite(deviation):
		return Distribution{}, fmt.Errorf("the mean of the values is %v and their standard deviation %v; expected finite ones", mean, deviation)
	case deviation <= 1e-12*math.Abs(mean) || deviation == 0:
		return Distribution{}, ErrConstant
	}
	l := likelihood{make([]float64, len(data))}
	skewness := 0.0
	for i, x := range data {
		l.data[i] = (x - mean) / deviation
		skewness += l.data[i] * l.data[i] * l.data[i] / float64(len(data))
	}
	best := l.climb(byMoments(skewness))
	if other := l.climb(byMoments(-math.Copysign(0.3, skewness))); other.value > best.value {
		best = other
	}
	return Distribution{mean + deviation*best.location, deviation * math.Exp(best.logScale), best.shape}, nil
}

// byMoments is the distribution with mean 0, variance 1 and approximately the skewness, within the limits of
// skew-normal distributions.
func byMoments(skewness float64) point {
	least, most := 0.05, 0.95 // the skewness is at most 0.9953
	cubed := math.Pow(max(least, min(most, math.Abs(skewness))), 2.0/3)
	delta := math.Sqrt(math.Pi / 2 * cubed / (cubed + math.Pow((4-math.Pi)/2, 2.0/3)))
	delta = math.Copysign(delta, skewness)
	scale := 1 / math.Sqrt(1-2*delta*delta/math.Pi)
	return point{-scale * delta * math.Sqrt(2/math.Pi), math.Log(scale), delta / math.Sqrt(1-delta*delta)}
}

// point is a place of the likelihood.
type point struct{ location, logScale, shape float64 }

func (p point) plus(step []float64) point {
	return point{p.location + step[0], p.logScale + step[1], p.shape + step[2]}
}

// likelihood is the likelihood of data with mean 0 and standard deviation 1, as a mean of
// logarithms.
type likelihood struct{ data []float64 }

type maximum struct {
	point
	value float64
}

// climb follows Newton's method from a point, damped so that every step goes up (Levenberg and Marquardt),
// until the promised gain is within rounding.
func (l likelihood) climb(p point) maximum {
	const steps, least = 200, 1e-14
	value, gradient, curvature := l.at(p)
	best, damping := maximum{p, value}, 1e-3
	for range steps {
		step, ok := newtonStep(gradient, curvature, damping)
		if !ok {
			damping *= 10
			continue
		}
		next := best.plus(step)
		if promised := floats.Dot(gradient[:], step); promised <= least {
			return maximum{next, best.value}
		}
		if math.Abs(next.shape) > MaxShape && math.Abs(best.shape) > MaxShape/2 {
			return best
		}
		value, slopes, bends := l.at(next)
		if !(value > best.value) || math.Abs(next.shape) > MaxShape {
			damping *= 10
			continue
		}
		best, damping, gradient, curvature = maximum{next, value}, damping/10, slopes, bends
	}
	return best
}

// newtonStep solves (curvature + damping) step = gradient, with curvature minus the matrix
// of second derivatives; false if that is not positive definite.
func newtonStep(gradient [3]float64, curvature *mat.SymDense, damping float64) ([]float64, bool) {
	damped := mat.NewSymDense(3, nil)
	damped.CopySym(curvature)
	for i := range 3 {
		damped.SetSym(i, i, curvature.At(i, i)+damping*(1e-3+math.Abs(curvature.At(i, i))))
	}
	var factors mat.Cholesky
	if !factors.Factorize(damped) {
		return nil, false
	}
	var step mat.VecDense
	if err := factors.SolveVecTo(&step, mat.NewVecDense(3, gradient[:])); err != nil {
		return nil, false
	}
	return step.RawVector().Data, true
}

// at returns the mean log-likelihood at a point, its gradient by location, logarithm of the scale and shape,
// and minus the matrix of its second derivatives.
func (l likelihood) at(p point) (value float64, gradient [3]float64, curvature *mat.SymDense) {
	scale, n := math.Exp(p.logScale), float64(len(l.data))
	var second [6]float64 // location-location, location-scale, location-shape, scale-scale, scale-shape, shape-shape
	for _, x := range l.data {
		z := (x - p.location) / scale
		t := p.shape * z
		logCDF, w := logNormalCDFAndHazard(t)
		value += logNormalDensity(z) + logCDF
		bend := -w * (t + w) // derivative of w by t
		pull := z - p.shape*w
		stiff := 1 - p.shape*p.shape*bend
		turn := w + p.shape*z*bend
		gradient[0] += pull / scale
		gradient[1] += z*pull - 1
		gradient[2] += z * w
		second[0] -= stiff / (scale * scale)
		second[1] -= (z*stiff + pull) / scale
		second[2] -= turn / scale
		second[3] -= z * (z*stiff + pull)
		second[4] -= z * turn
		second[5] += z * z * bend
	}
	value = value/n + math.Ln2 - p.logScale
	for i := range gradient {
		gradient[i] /= n
	}
	curvature = mat.NewSymDense(3, nil)
	for k, at := range [6][2]int{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}} {
		curvature.SetSym(at[0], at[1], -second[k]/n)
	}
	return value, gradient, curvature
}
