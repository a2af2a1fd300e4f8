// These files hold the skew-normal distribution of Azzalini (1985, A class of
// distributions which includes the normal ones): its density, its distribution function in
// the far tails, and its fit by maximum likelihood.
//
//	fitted, err := skewnormal.Fit(costs)
//	bits := -fitted.LogCDF(x) / math.Ln2
//
// The distribution with shape a has the density 2 φ(z) Φ(a z) at z = (x - location) /
// scale, φ and Φ those of the standard normal: the parametrisation of scipy.stats.skewnorm.

package skewnormal

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/integrate/quad"

	"coalmine/internal/numbers"
)

// Distribution is a skew-normal distribution. With shape 0 it is the normal one, whose mean
// is the location and whose standard deviation the scale, which is above 0.
type Distribution struct {
	Location float64 `json:"location"`
	Scale    float64 `json:"scale"`
	Shape    float64 `json:"shape"`
}

func (d Distribution) standard(x float64) float64 { return (x - d.Location) / d.Scale }

// LogDensity is the natural logarithm of the density at x.
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

// CDF is the probability of at most x.
func (d Distribution) CDF(x float64) float64 { return math.Exp(d.LogCDF(x)) }

// Quantile is the x with CDF p, for p between 0 and 1, to about a relative 1e-9.
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

// logDensity is the log density of the standard distribution, slope its derivative. It is concave.
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

// logNormalDensity is the logarithm of the standard normal density.
func logNormalDensity(x float64) float64 { return -x*x/2 - logSqrtTwoPi }

// farTail is the point from which Mills' ratio replaces erfc, which underflows.
const farTail = 10

// logNormalCDF is the logarithm of the standard normal distribution function, to about a
// relative 1e-14 wherever it can be represented.
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

// millsRatio is the upper tail of the standard normal over its density, from farTail on: by
// Laplace's continued fraction 1/(x + 1/(x + 2/(x + 3/...))).
func millsRatio(x float64) float64 {
	const terms = 40 // further terms are below a relative 1e-16 at farTail
	denominator := x
	for k := float64(terms); k >= 1; k-- {
		denominator = x + k/denominator
	}
	return 1 / denominator
}
