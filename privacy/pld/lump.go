package pld

import "math"

// fromBelow returns a grid distribution whose delta is nowhere above d's. It
// lumps outputs into bins whose joint loss is as near to a grid point as can
// be computed, on the side from which rounding to the point lowers it.
func (d pair) fromBelow(step, z float64) grid {
	l := newLumper(d, step, z)
	for l.next() {
	}
	l.finish()
	return l.grid
}

// lumper lays bins from the lowest loss of removing a member to the highest.
// For adding one, p and q are swapped and losses negated, and the same bins
// serve: the loss of removing is then rounded up.
type lumper struct {
	removing pair // what the bins are laid by
	adding   bool // whose losses the grid holds
	grid     grid
	left     lossEdge // where the next bin starts
	high     float64  // where bins end; what is beyond has next to no mass
}

// lossEdge is an edge with its loss, both of removing.
type lossEdge struct {
	loss float64
	edge edge
}

func newLumper(d pair, step, z float64) *lumper {
	removing := pair{rate: d.rate, sigma: d.sigma, removing: true}
	low, high := removing.support(z)
	first, last := int(math.Floor(low/step)), int(math.Ceil(high/step))+1 // a bin starts below high
	l := &lumper{
		removing: removing, adding: !d.removing,
		grid: grid{step: step, first: first, mass: make([]float64, last-first+1)},
		left: lossEdge{loss: low, edge: removing.edgeAt(math.Inf(-1))}, // what is below joins the first bin
		high: high,
	}
	if l.adding {
		l.grid.first = -last
	}
	return l
}

// put adds p's mass of a bin to the grid point that is k steps of the loss of
// removing.
func (l *lumper) put(k int, mixture, noise float64) {
	if l.adding {
		l.grid.mass[-k-l.grid.first] += noise
	} else {
		l.grid.mass[k-l.grid.first] += mixture
	}
}

func (l *lumper) edgeAt(loss float64) lossEdge {
	return lossEdge{loss: loss, edge: l.removing.edgeAt(loss)}
}

// mass returns the mass of mixture and noise between two edges.
func (l *lumper) mass(low, high lossEdge) (mixture, noise float64) {
	return l.removing.mass(low.edge, high.edge)
}

// reachSteps is how far beyond its grid point a bin may extend.
const reachSteps = 16

// next lays a bin around the next grid point that is not too close to the
// start. It returns false when there is no more mass to balance.
func (l *lumper) next() bool {
	k := int(math.Ceil(l.left.loss/l.grid.step + 0.25))
	point := float64(k) * l.grid.step
	if point > l.high {
		return false
	}
	scale := math.Exp(point)
	surplus := func(end lossEdge) float64 {
		mixture, noise := l.mass(l.left, end)
		return mixture - noise*scale
	}
	low := l.edgeAt(point)
	lowSurplus := surplus(low)
	if !(lowSurplus < 0) {
		return false
	}
	for width := point - l.left.loss; width < reachSteps*l.grid.step; width *= 1.5 {
		high := l.edgeAt(point + width)
		highSurplus := surplus(high)
		if highSurplus >= 0 {
			l.close(k, l.narrow(surplus, low, high, lowSurplus, highSurplus))
			return true
		}
		low, lowSurplus = high, highSurplus
	}
	l.closeShort(k, l.edgeAt(point))
	return true
}

// closeShort ends a bin at its grid point, where what follows is too little to
// balance it, and rounds it by more than usual: down to a point at or below
// its start or, adding a member, up to its end.
func (l *lumper) closeShort(k int, end lossEdge) {
	if !l.adding {
		k = int(math.Floor(l.left.loss / l.grid.step))
	}
	l.close(k, end)
}

// narrow finds where surplus changes sign, by the Illinois variant of false
// position, and returns a point just on the side that lowers the loss of the
// bin when it is rounded.
func (l *lumper) narrow(surplus func(lossEdge) float64, low, high lossEdge, lowSurplus, highSurplus float64) lossEdge {
	atLow, atHigh := lowSurplus, highSurplus
	for range 5 {
		share := atLow / (atLow - atHigh)
		middle := l.edgeAt(low.loss + share*(high.loss-low.loss))
		if s := surplus(middle); s >= 0 {
			high, atHigh = middle, s
			atLow /= 2
		} else {
			low, atLow = middle, s
			atHigh /= 2
		}
	}
	if l.adding {
		return low
	}
	return high
}

// close ends the bin of grid point k at end.
func (l *lumper) close(k int, end lossEdge) {
	mixture, noise := l.mass(l.left, end)
	l.put(k, mixture, noise)
	l.left = end
}

// finish deals with what is left at the high end, cell by cell. Here the noise
// alone has next to no mass, perhaps too little for a double, and the joint
// loss of a bin cannot be known; it is at least that of its lower end. Adding
// a member, this is the mass whose loss is lowest: it is left out.
func (l *lumper) finish() {
	if l.adding {
		return
	}
	for k := int(math.Floor(l.left.loss / l.grid.step)); l.left.loss < l.high; k++ {
		l.close(k, l.edgeAt(float64(k+1)*l.grid.step))
	}
}
