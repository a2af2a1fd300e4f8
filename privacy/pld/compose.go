package pld

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

// part is the loss of one round and how often it is added up.
type part struct {
	grid   grid
	rounds int
}

// sum is the distribution of the summed losses of many rounds, near the losses
// that the tilt moved the bulk of the mass to. The mass at a loss of
// (first+i) steps is
//
//	tilted[i] x exp(logScale - tilt x loss).
type sum struct {
	step     float64
	first    int
	tilted   []float64
	tilt     float64
	logScale float64
	beyond   float64 // mass at +Inf
}

// missed bounds the tilted mass that a window leaves out, at either end. It is
// of the order of the rounding errors of the transform, which it covers too.
const missed = 1e-13

// maxWindow is the longest transform, in grid points.
const maxWindow = 1 << 20

// compose adds up the losses of all parts, which share a step. ok is false when
// the window would be longer than maxWindow.
func compose(parts []part, tilt float64) (total sum, ok bool) {
	total = sum{step: parts[0].grid.step, tilt: tilt}
	tilted := make([][]float64, len(parts))
	survive := 1.0
	for i, p := range parts {
		logMass := p.grid.logMoment(tilt)
		total.logScale += float64(p.rounds) * logMass
		tilted[i] = p.grid.tilted(tilt, logMass)
		survive *= math.Pow(1-p.grid.beyond, float64(p.rounds))
	}
	total.beyond = 1 - survive
	low, high := window(parts, tilted)
	size := powerOfTwo(high - low + 2)
	if size > maxWindow {
		return sum{}, false
	}
	total.first = low
	total.tilted = convolve(parts, tilted, low, size)
	return total, true
}

// logMoment returns log sum mass x exp(tilt x loss).
func (g grid) logMoment(tilt float64) float64 {
	peak := math.Inf(-1)
	for i, m := range g.mass {
		if m > 0 {
			peak = math.Max(peak, tilt*g.loss(i)+math.Log(m))
		}
	}
	total := 0.0
	for i, m := range g.mass {
		if m > 0 {
			total += m * math.Exp(tilt*g.loss(i)-peak)
		}
	}
	return peak + math.Log(total)
}

func (g grid) loss(i int) float64 { return float64(g.first+i) * g.step }

// tilted returns mass x exp(tilt x loss - logMass), which sums to 1.
func (g grid) tilted(tilt, logMass float64) []float64 {
	out := make([]float64, len(g.mass))
	for i, m := range g.mass {
		if m > 0 {
			out[i] = m * math.Exp(tilt*g.loss(i)-logMass)
		}
	}
	return out
}

// window returns the sums, in steps, between which the tilted sum of all parts
// lies but for a mass of missed at each end.
func window(parts []part, tilted [][]float64) (low, high int) {
	mean, variance, lowest, highest := 0.0, 0.0, 0.0, 0.0
	for i, p := range parts {
		m, v := moments(p.grid.first, tilted[i])
		n := float64(p.rounds)
		mean, variance = mean+n*m, variance+n*v
		lowest += n * float64(p.grid.first)
		highest += n * float64(p.grid.first+len(tilted[i])-1)
	}
	normal := math.Sqrt(-2 * math.Log(missed) / math.Max(variance, 1e-12))
	highest = math.Max(mean, math.Min(highest, reach(parts, tilted, normal)))
	lowest = math.Min(mean, math.Max(lowest, -reach(parts, tilted, -normal)))
	return int(math.Floor(lowest)), int(math.Ceil(highest))
}

// reach returns a number of steps that the tilted sum, negated when the
// exponent is, stays below but for a mass of missed. That is Chernoff's
// inequality at the best exponent near the given one, which is best for a
// normal distribution, or well below it, as longer tails need. Every exponent
// gives a bound, so the search may be coarse.
func reach(parts []part, tilted [][]float64, exponent float64) float64 {
	best := math.Inf(1)
	for halvings := 0; halvings < 12; halvings++ {
		total := -math.Log(missed)
		for i, p := range parts {
			total += float64(p.rounds) * logGenerating(p.grid.first, tilted[i], exponent)
		}
		bound := total / math.Abs(exponent)
		if bound > best {
			break
		}
		best = bound
		exponent /= 1.6
	}
	return best
}

// moments returns mean and variance, in steps, of masses from first on.
func moments(first int, mass []float64) (mean, variance float64) {
	for i, m := range mass {
		mean += m * float64(first+i)
	}
	for i, m := range mass {
		d := float64(first+i) - mean
		variance += m * d * d
	}
	return mean, variance
}

// logGenerating returns the log of the mean of exp(exponent x steps).
func logGenerating(first int, mass []float64, exponent float64) float64 {
	end := first // the end where the exponential is largest
	if exponent > 0 {
		end = first + len(mass) - 1
	}
	total := 0.0
	for i, m := range mass {
		if t := exponent * float64(first+i-end); m > 0 && t > -700 {
			total += m * math.Exp(t)
		}
	}
	return exponent*float64(end) + math.Log(total)
}

// convolve returns the masses of the sums low, low+1, ... low+size-1. Sums
// outside come back around, which the window keeps below 2 x missed.
func convolve(parts []part, tilted [][]float64, low, size int) []float64 {
	transform := fourier.NewFFT(size)
	var product []complex128
	for i, p := range parts {
		ring := make([]float64, size)
		for j, m := range tilted[i] {
			ring[modulo(p.grid.first+j, size)] += m
		}
		spectrum := transform.Coefficients(nil, ring)
		for j, c := range spectrum {
			spectrum[j] = power(c, p.rounds)
			if product != nil {
				spectrum[j] *= product[j]
			}
		}
		product = spectrum
	}
	ring := transform.Sequence(nil, product)
	out := make([]float64, size)
	for i := range out {
		out[i] = math.Max(0, ring[modulo(low+i, size)]/float64(size))
	}
	return out
}

// power returns c to the n-th, n at least 0, by repeated squaring.
func power(c complex128, n int) complex128 {
	result := complex(1, 0)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			result *= c
		}
		c *= c
	}
	return result
}

func modulo(k, n int) int {
	if k %= n; k < 0 {
		return k + n
	}
	return k
}

func powerOfTwo(n int) int {
	size := 16
	for size < n {
		size *= 2
	}
	return size
}
