package pld

import "math"

// grid is a distribution of losses on whole multiples of a step.
type grid struct {
	step   float64
	first  int       // the loss of mass[0], in steps
	mass   []float64 // what is missing to 1, besides infinite, has loss -Inf
	beyond float64   // mass with loss +Inf
}

// fromAbove returns a grid distribution whose delta is nowhere below d's.
func (d pair) fromAbove(step, z float64) grid {
	low, high := d.support(z)
	first, last := int(math.Floor(low/step)), int(math.Ceil(high/step))
	g := grid{step: step, first: first, mass: make([]float64, last-first+1)}
	bottom, top := d.edgeAt(math.Inf(-1)), d.edgeAt(math.Inf(1))
	left := d.edgeAt(float64(first) * step)
	g.mass[0], _ = d.mass(bottom, left)
	for k := first; k < last; k++ {
		right := d.edgeAt(float64(k+1) * step)
		p, q := d.mass(left, right)
		up := splitUp(p, q*math.Exp(float64(k)*step), step)
		g.mass[k-first] += p - up
		g.mass[k-first+1] += up
		left = right
	}
	g.beyond, _ = d.mass(left, top)
	return g
}

// splitUp returns how much of p goes to the upper end of a cell of width step,
// the rest going to its lower end, so that q keeps its mass too. q is scaled to
// the lower end. Where q is too small to tell, all of p goes up.
func splitUp(p, q, step float64) float64 {
	up := (p - q) / -math.Expm1(-step)
	if !(up < p) {
		return p
	}
	return math.Max(0, up)
}
