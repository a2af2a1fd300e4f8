package pld

import "math"

// pair is the two output distributions of one round that are hardest to tell
// apart: normal noise, and the mixture in which a member was sampled with
// probability rate (Mironov, Talwar and Zhang 2019, section 3). Outputs are in
// units of the sensitivity.
//
// removing takes the mixture for p and the noise for q, its opposite the other
// way round.
type pair struct {
	rate     float64 // within (0, 1)
	sigma    float64 // above 0
	removing bool
}

// output returns where the loss of removing, which rises with the output, is
// loss: -Inf where it is higher everywhere.
func (d pair) output(loss float64) float64 {
	shift := math.Expm1(loss) / d.rate
	if shift <= -1 {
		return math.Inf(-1)
	}
	if loss > 700 { // where exp overflows
		return d.sigma*d.sigma*(loss-math.Log(d.rate)) + 0.5
	}
	return d.sigma*d.sigma*math.Log1p(shift) + 0.5
}

// lossAt is the inverse of output.
func (d pair) lossAt(x float64) float64 {
	e := (x - 0.5) / (d.sigma * d.sigma)
	if e > 700 {
		return e + math.Log(d.rate)
	}
	return math.Log1p(d.rate * math.Expm1(e))
}

// edge is a point on the axis of losses, with what the two normal
// distributions have on its outer side.
type edge struct {
	noise, shifted tailMass
}

// tailMass is the mass of a normal distribution beyond a point, on whichever
// side of the point is away from the mean.
type tailMass struct {
	above bool
	mass  float64
}

func newTailMass(z float64) tailMass {
	return tailMass{above: z > 0, mass: upperTail(math.Abs(z))}
}

// between returns the mass from low to high without cancellation in the tails.
func between(low, high tailMass) float64 {
	switch {
	case low.above:
		return low.mass - high.mass
	case !high.above:
		return high.mass - low.mass
	}
	return 1 - low.mass - high.mass
}

// edgeAt returns the edge where the loss is loss.
func (d pair) edgeAt(loss float64) edge {
	if !d.removing {
		loss = -loss
	}
	x := d.output(loss)
	return edge{noise: newTailMass(x / d.sigma), shifted: newTailMass((x - 1) / d.sigma)}
}

// mass returns what p and q have where the loss is between two edges, the
// lower loss first.
func (d pair) mass(low, high edge) (p, q float64) {
	if !d.removing {
		low, high = high, low
	}
	noise := math.Max(0, between(low.noise, high.noise))
	shifted := math.Max(0, between(low.shifted, high.shifted))
	mixture := (1-d.rate)*noise + d.rate*shifted
	if d.removing {
		return mixture, noise
	}
	return noise, mixture
}

// support returns an interval of losses outside of which p has at most
// 2 x exp(-z^2/2) of its mass.
func (d pair) support(z float64) (low, high float64) {
	low, high = d.lossAt(-z*d.sigma), d.lossAt(1+z*d.sigma)
	if d.removing {
		return low, high
	}
	return -high, -low
}
