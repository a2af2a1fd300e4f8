package pld

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/integrate/quad"
)

// point is a node of the quadrature over p: the sum of exp(logMass) x f(loss)
// is the mean of f, over the outputs within reach.
type point struct {
	loss    float64
	logMass float64
	size    float64 // size of the terms of loss, for its rounding error
}

// resolution is the range of moments of exp(s x loss) that a quadrature must reproduce: all s from
// 0 to tilt plus or minus i x frequency, to 1e-14 of exp(logMoment).
type resolution struct {
	tilt, frequency float64
	logMoment       float64
}

// points places Gauss-Legendre panels over all outputs except for a mass of outside.
func (d pair) points(outside float64, r resolution) []point {
	var out []point
	components := d.components()
	for _, c := range components {
		if c.weight == 0 {
			continue
		}
		reach := reachFor(outside / c.weight / float64(len(components)))
		last := min(reach, (c.below-c.ratio)*d.sigma)
		for start := max(-reach, (c.above-c.ratio)*d.sigma); start < last; {
			end := d.panelEnd(c, panels{start, last, reach}, r)
			out = d.appendPanel(out, c, start, end)
			start = end
		}
	}
	return append(out, d.atoms()...)
}

// reachFor returns the number of standard deviations around the mean of a normal distribution
// outside which at most the given mass lies.
func reachFor(mass float64) float64 {
	low, high := 0.0, 38.0
	for high-low > 0.01 {
		if middle := (low + high) / 2; 2*upperTail(middle) > mass {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// panelOrder is the number of nodes of a panel.
const panelOrder = 64

// A rule of n nodes on [-1, 1] errs by less than 5 M rho^-2n, where M bounds the function on the
// ellipse with foci -1 and 1 and half axes (rho +- 1/rho)/2 (Trefethen 2013, Approximation Theory
// and Approximation Practice, Theorem 19.3). With rho = 2.6 and n = 64 that is 5e-53 M. On a panel
// of half width w standard deviations, the normal density grows by less than exp(21) from the panel
// to the ellipse for w at most 3 and outputs up to 8 deviations away, and exp(s x loss) by less
// than exp(70) under the limit below. The ellipse has to stay clear of the points where the loss is
// singular.
//
// A panel with little of the tilted mass may have a proportionally larger error.
const (
	panelHalf   = 3.0
	panelGrowth = 60.0
	ellipseLong = 1.5 // the longer half axis
	negligible  = -40 // log of a negligible mass
)

// panels covers start to last, within reach standard deviations of the mean.
type panels struct{ start, last, reach float64 }

func (d pair) panelEnd(c component, over panels, r resolution) float64 {
	start := over.start
	low, high := d.turns()
	low, high = (low-c.ratio)*d.sigma, (high-c.ratio)*d.sigma // in standard deviations from the mean
	half := math.Min(math.Min(panelHalf, 24/over.reach), (over.last-start)/2)
	for ; half > 1e-9; half *= 0.8 {
		centre := start + half
		if math.Hypot(max(0, low-centre, centre-high), math.Pi*d.sigma) < ellipseLong*half {
			continue
		}
		logMass := d.logMassBound(c, start, start+2*half, r)
		slope := d.slope(c.ratio+(centre+ellipseLong*half)/d.sigma) / d.sigma
		if logMass < negligible || math.Hypot(r.tilt, r.frequency)*slope*half <= panelGrowth-0.9*logMass {
			break
		}
	}
	if start+2*half > over.last-1e-9 {
		return over.last
	}
	return start + 2*half
}

// logMassBound bounds the log of the share of the tilted mass between two outputs.
func (d pair) logMassBound(c component, start, end float64, r resolution) float64 {
	nearest := math.Max(0, math.Max(start, -end))
	highest := math.Max(r.tilt*d.loss(c, c.ratio+start/d.sigma), r.tilt*d.loss(c, c.ratio+end/d.sigma))
	return math.Min(0, math.Log(c.weight*(end-start))-nearest*nearest/2+highest-r.logMoment)
}

// legendre holds nodes and the logs of weights of the rule on [-1, 1].
var legendre = sync.OnceValues(func() (nodes, logWeights [panelOrder]float64) {
	quad.Legendre{}.FixedLocations(nodes[:], logWeights[:], -1, 1)
	for i, w := range logWeights {
		logWeights[i] = math.Log(w)
	}
	return nodes, logWeights
})

func (d pair) appendPanel(out []point, c component, start, end float64) []point {
	nodes, logWeights := legendre()
	centre, half := (start+end)/2, (end-start)/2
	logScale := math.Log(c.weight*half) - math.Log(2*math.Pi)/2
	for i, node := range nodes {
		g := centre + half*node
		ratio := c.ratio + g/d.sigma
		loss := d.loss(c, ratio)
		out = append(out, point{
			loss:    loss,
			logMass: logScale + logWeights[i] - g*g/2,
			size:    math.Abs(loss) + d.slope(ratio)*(math.Abs(c.ratio)+math.Abs(g)/d.sigma) + d.cancelled(ratio),
		})
	}
	return out
}

// tilted returns the log of the mean of exp(tilt x loss), and each point's share of it.
func tilted(points []point, tilt float64) (logMoment float64, masses []float64) {
	peak := math.Inf(-1)
	for _, p := range points {
		if x := tilt*p.loss + p.logMass; x > peak {
			peak = x
		}
	}
	masses = make([]float64, len(points))
	if math.IsInf(peak, -1) {
		return peak, masses
	}
	total, lost := 0.0, 0.0 // lost is the part of total lost to rounding (Kahan 1965)
	for i, p := range points {
		masses[i] = math.Exp(tilt*p.loss + p.logMass - peak)
		term := masses[i] - lost
		sum := total + term
		lost = (sum - total) - term
		total = sum
	}
	for i := range masses {
		masses[i] /= total
	}
	return peak + math.Log(total), masses
}

// transformErrors bounds the error of the mean of exp((tilt + iy) x loss), relative to the mean of
// exp(tilt x loss), by fixed + y x perFrequency. Part of it is the rounding of losses, which
// determines the rounding of exponents.
func transformErrors(points []point, masses []float64, tilt, logMoment float64) (fixed, perFrequency float64) {
	size := 0.0
	for i, m := range masses {
		size += m * points[i].size
	}
	return transformError + rounding*(math.Abs(logMoment)+math.Abs(tilt)*size), rounding * size
}

// rounding is a few units in the last place.
const rounding = 1e-15
