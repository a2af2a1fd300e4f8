package rdp

import (
	"math"
	"slices"

	"coalmine/internal/lists"
)

// logTrapezoidal returns the logarithm of the integral of exp(logF), which is negligible outside
// [low, high], by the trapezoidal rule with about the given step. For a function that is analytic
// within a distance d of the real axis the rule errs by exp(-2 pi d/step) only (Trefethen and
// Weideman 2014, The Exponentially Convergent Trapezoidal Rule, Theorem 5.1). The integrand of
// poissonFractional is analytic up to d = pi/u, where 1+qy vanishes.
func logTrapezoidal(logF func(float64) float64, low, high, step float64) float64 {
	n := int((high-low)/step) + 1
	terms := logSum{peak: math.Inf(-1), terms: make([]float64, 0, n+1)}
	for i := range n + 1 {
		terms.add(logF(low + float64(i)*step))
	}
	return terms.log() + math.Log(step)
}

// logIntegral returns the logarithm of the integral of exp(logF) over [low, high], to about 1e-12
// relative. logF is smooth, with peaks wide enough for the scan of findPeaks; turn is a point
// around which logF may change over a shorter distance.
//
// It finds the peaks, places panels around them that double in width with the
// distance, and halves a panel until Gauss-Kronrod quadrature converges on it.
func logIntegral(logF func(float64) float64, low, high, turn float64) float64 {
	points := append(findPeaks(logF, low, high), math.Min(math.Max(turn, low), high))
	peak := math.Inf(-1)
	for _, x := range points {
		peak = math.Max(peak, logF(x))
	}
	f := func(x float64) float64 { return math.Exp(logF(x) - peak) }
	// Rounding of an exponent of the order of high^2 acts as noise, which
	// halving panels does not reduce.
	noise := 4e-16 * high * high
	return peak + math.Log(integrate(f, panels(points, low, high), 1e-10+noise))
}

// findPeaks scans [low, high] and refines the local maxima found.
func findPeaks(f func(float64) float64, low, high float64) []float64 {
	const steps = 256
	step := (high - low) / steps
	values := lists.Make(steps+1, func(i int) float64 { return f(low + float64(i)*step) })
	var peaks []float64
	for i, v := range values {
		if v >= values[max(i-1, 0)] && v >= values[min(i+1, steps)] {
			x := low + float64(i)*step
			peaks = append(peaks, climb(f, math.Max(low, x-step), math.Min(high, x+step)))
		}
	}
	return peaks
}

// climb returns the maximizer of f on [a, b] by golden section, to a small part of a standard
// deviation.
func climb(f func(float64) float64, a, b float64) float64 {
	const ratio = 0.6180339887498949
	c, d := b-ratio*(b-a), a+ratio*(b-a)
	fc, fd := f(c), f(d)
	for b-a > 0.05 {
		if fc > fd {
			b, d, fd = d, c, fc
			c = b - ratio*(b-a)
			fc = f(c)
		} else {
			a, c, fc = c, d, fd
			d = a + ratio*(b-a)
			fd = f(d)
		}
	}
	return (a + b) / 2
}

// panels returns the ends of the panels, ascending, from low to high.
func panels(points []float64, low, high float64) []float64 {
	ends := []float64{low, high}
	for _, x := range points {
		ends = append(ends, x)
		for width := 1.5; width < high-low; width *= 2 {
			ends = append(ends, math.Max(low, x-width), math.Min(high, x+width))
		}
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}

// integrate sums f over the panels, left to right, until the error on each is
// within a share of the whole.
func integrate(f func(float64) float64, ends []float64, tolerance float64) float64 {
	rough := 0.0
	for i := 1; i < len(ends); i++ {
		value, _ := gaussKronrod(f, ends[i-1], ends[i])
		rough += value
	}
	sum := 0.0
	for i := 1; i < len(ends); i++ {
		sum += refine(f, ends[i-1], ends[i], tolerance*rough, maxHalvings)
	}
	return sum
}

// maxHalvings limits the halvings of a panel; this many resolve any turn of the integrand.
const maxHalvings = 20

// refine halves [a, b] until the error on each part is within tolerance.
func refine(f func(float64) float64, a, b, tolerance float64, depth int) float64 {
	value, err := gaussKronrod(f, a, b)
	if err <= tolerance || depth == 0 {
		return value
	}
	middle := a + (b-a)/2
	return refine(f, a, middle, tolerance, depth-1) + refine(f, middle, b, tolerance, depth-1)
}

// The 15 nodes of Kronrod's extension of the 7-point Gauss-Legendre rule on
// [-1, 1], outermost first, and their weights (Piessens et al. 1983, QUADPACK, routine QK15). Every
// second node, from index 1, is a node of the Gauss rule.
var (
	kronrodNodes = [8]float64{
		0.991455371120812639206854697526329, 0.949107912342758524526189684047851,
		0.864864423359769072789712788640926, 0.741531185599394439863864773280788,
		0.586087235467691130294144691693319, 0.405845151377397166906606412076961,
		0.207784955007898467600689403773245, 0,
	}
	kronrodWeights = [8]float64{
		0.022935322010529224963732008058970, 0.063092092629978553290700663189204,
		0.104790010322250183839876322541518, 0.140653259715525918745189590510238,
		0.169004726639267902826583426598550, 0.190350578064785409913256402421014,
		0.204432940075298892414161999234649, 0.209482141084727828012999174891714,
	}
	gaussWeights = [4]float64{
		0.129484966168869693270611432679082, 0.279705391489276667901467771423780,
		0.381830050505118944950369775488975, 0.417959183673469387755102040816327,
	}
)

// gaussKronrod integrates f over [a, b] and estimates its error as the
// difference from the Gauss rule on half the nodes, which overstates it.
func gaussKronrod(f func(float64) float64, a, b float64) (value, err float64) {
	centre, half := a+(b-a)/2, (b-a)/2
	middle := f(centre)
	kronrod, gauss := kronrodWeights[7]*middle, gaussWeights[3]*middle
	for i := range 7 {
		pair := f(centre-half*kronrodNodes[i]) + f(centre+half*kronrodNodes[i])
		kronrod += kronrodWeights[i] * pair
		if i%2 == 1 {
			gauss += gaussWeights[i/2] * pair
		}
	}
	return kronrod * half, math.Abs(kronrod-gauss) * half
}
