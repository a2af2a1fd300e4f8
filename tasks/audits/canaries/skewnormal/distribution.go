// This file has the skew-normal distribution of Azzalini (1985, A class of distributions which includes the
// normal ones): its density, its distribution function in the far tails, and its fit by maximum likelihood.
//
//	fitted, err := skewnormal.FitDistribution(costs)
//	bits := -fitted.LogCDF(x) / math.Ln2
//
// The distribution with shape a has the density 2 φ(z) Φ(a z) at z = (x - location) / scale, φ and Φ those of
// the standard normal: the parametrization of scipy.stats.skewnorm.

package skewnormal

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"coalmine/internal/numbers"
)

// Distribution is a skew-normal distribution. With shape 0 it is the normal one, whose mean
// is the location and whose standard deviation the scale, which is above 0.
type Distribution struct {
	Location float64 `json:"location" doc:"location, in nats"`
	Scale    float64 `json:"scale" doc:"scale, in nats"`
	Shape    float64 `json:"shape" doc:"shape: 0 if normal"`
}

func (d Distribution) standard(x float64) float64 { return (x - d.Location) / d.Scale }

// LogDensity returns the natural logarithm of the density at x.
func (d Distribution) LogDensity(x float64) float64 {
	return logDensity(d.standard(x), d.Shape) - math.Log(d.Scale)
}

// LogCDF returns the natural logarithm of the probability of at most x, to a relative 1e-11
// for shapes within 1000, in both tails, even if the distribution function itself rounds to
// 0 or 1.
//
// Owen's T function, the usual form of the distribution function, subtracts two nearly
// equal numbers in the tails. This function integrates the density instead, relative to its
// value at x.
func (d Distribution) LogCDF(x float64) float64 {
	z := d.standard(x)
	switch {
	case math.IsNaN(z):
		return z
	case math.IsInf(z, 0):
		return math.Log(max(0, math.Copysign(1, z)))
	case slope(z, d.Shape) >= 0:
		return logLeftTail(z, d.Shape)
	default: // the mirror image has the negated shape
		return numbers.LogOneMinusExp(logLeftTail(-z, -d.Shape))
	}
}

// CDF returns the probability of at most x.
func (d Distribution) CDF(x float64) float64 { return math.Exp(d.LogCDF(x)) }

// Quantile returns the x with CDF p, for p between 0 and 1, to about a relative 1e-9.
func (d Distribution) Quantile(p float64) float64 {
	target := math.Log(p)
	low, high := -1.0, 1.0
	for d.LogCDF(d.Location+low*d.Scale) > target {
		low *= 2
	}
	for d.LogCDF(d.Location+high*d.Scale) < target {
		high *= 2
	}
	for range 60 {
		middle := (low + high) / 2
		if d.LogCDF(d.Location+middle*d.Scale) < target {
			low = middle
		} else {
			high = middle
		}
	}
	return d.Location + high*d.Scale
}

// logDensity returns the logarithm of the density of the standard distribution, and slope returns its derivative. The
// logarithm is concave.
func logDensity(z, shape float64) float64 {
	return math.Ln2 + logNormalDensity(z) + logNormalCDF(shape*z)
}

func slope(z, shape float64) float64 {
	_, hazard := logNormalCDFAndHazard(shape * z)
	return -z + shape*hazard
}

// negligible is the fall of the density, in nats, after which the remaining tail does not change the
// integral.
const negligible = 40

// logLeftTail returns the logarithm of the integral of the density up to z, for z left of its peak. To the
// left of z the density falls fast, because its logarithm is concave.
func logLeftTail(z, shape float64) float64 {
	peak := logDensity(z, shape)
	relative := func(s float64) float64 { return math.Exp(logDensity(z-s, shape) - peak) }
	end := tailLength(z, shape, peak)
	// If the shape is below 0, its factor rises from 0 to 1 within a few 1/|shape| around
	// 0, and is 1 below: two smooth pieces.
	const flat = 9 // Φ(9) is 1 to 1e-19
	if knee := z + flat/math.Abs(shape); shape < 0 && 0 < knee && knee < end {
		return peak + math.Log(integrate(relative, 0, knee)+integrate(relative, knee, end))
	}
	return peak + math.Log(integrate(relative, 0, end))
}

// tailLength returns the distance left of z at which the density has fallen by
// negligible.
func tailLength(z, shape, peak float64) float64 {
	falls := func(s float64) float64 { return peak - logDensity(z-s, shape) }
	short, long := 0.0, 1/(1+slope(z, shape))
	for falls(long) < negligible {
		short, long = long, 2*long
	}
	for falls(long) > negligible+10 {
		if middle := (short + long) / 2; falls(middle) < negligible {
			short = middle
		} else {
			long = middle
		}
	}
	return long
}

// rule is the Gauss-Legendre rule on [-1, 1], exact for polynomials of degree 95.
var rule = sync.OnceValue(func() (r struct{ places, weights [48]float64 }) {
	quad.Legendre{}.FixedLocations(r.places[:], r.weights[:], -1, 1)
	return r
})

func integrate(f func(float64) float64, from, to float64) float64 {
	r, middle, half, sum := rule(), (from+to)/2, (to-from)/2, 0.0
	for i, place := range r.places {
		sum += r.weights[i] * f(middle+half*place)
	}
	return half * sum
}

const logSqrtTwoPi = 0.918938533204672741780329736406 // log(2 pi) / 2

// logNormalDensity returns the logarithm of the standard normal density.
func logNormalDensity(x float64) float64 { return -x*x/2 - logSqrtTwoPi }

// farTail is the point from which Mills' ratio replaces erfc, which underflows.
const farTail = 10

// logNormalCDF returns the logarithm of the standard normal distribution function, to about a relative 1e-14
// wherever it can be represented.
func logNormalCDF(x float64) float64 {
	switch {
	case x > 0:
		return math.Log1p(-math.Erfc(x/math.Sqrt2) / 2)
	case x > -farTail:
		return math.Log(math.Erfc(-x/math.Sqrt2) / 2)
	default:
		return logNormalDensity(x) + math.Log(millsRatio(-x))
	}
}

// logNormalCDFAndHazard adds to logNormalCDF its derivative: the density over the
// distribution function.
func logNormalCDFAndHazard(x float64) (logCDF, hazard float64) {
	logCDF = logNormalCDF(x)
	return logCDF, math.Exp(logNormalDensity(x) - logCDF)
}

// millsRatio returns the upper tail of the standard normal over its density, from farTail on: by Laplace's
// continued fraction 1/(x + 1/(x + 2/(x + 3/...))).
func millsRatio(x float64) float64 {
	const terms = 40 // further terms are below a relative 1e-16 at farTail
	denominator := x
	for k := float64(terms); k >= 1; k-- {
		denominator = x + k/denominator
	}
	return 1 / denominator
}

// ErrConstant reports that all data are equal, so that no distribution with a density
// fits.
var ErrConstant = errors.New("all values are equal")

// MaxShape bounds the shape of a fit. Data on one side of a point fit better the larger the shape; beyond
// MaxShape the difference is negligible.
const MaxShape = 1000

// FitDistribution returns the distribution under which the data, two values at least, are the most likely.
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

// byMoments returns the distribution with mean 0, variance 1 and approximately the skewness, within the
// limits of skew-normal distributions.
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
