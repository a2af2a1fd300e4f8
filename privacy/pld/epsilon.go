package pld

import "math"

// bound says on which side of the truth to err.
type bound int

const (
	below bound = -1
	above bound = 1
)

// slack bounds what window and rounding may hide of delta at a loss, in units
// of exp(logScale - tilt x loss).
const slack = 1e-11

// curve walks delta as a function of epsilon from high losses to low ones.
// Sums are kept relative to the walk's position, so that neither overflows.
type curve struct {
	s    sum
	side bound
	at   int     // position, as an index into s.tilted
	mass float64 // sum over losses above the position, in units of unit()
	less float64 // the same of mass x exp(position - loss)
}

func newCurve(s sum, side bound) *curve {
	return &curve{s: s, side: side, at: len(s.tilted) - 1}
}

// loss returns the position.
func (c *curve) loss() float64 { return float64(c.s.first+c.at) * c.s.step }

// logUnit returns the log of the unit of mass at the position.
func (c *curve) logUnit() float64 { return c.s.logScale - c.s.tilt*c.loss() }

// down moves the position one step down.
func (c *curve) down() {
	gain := c.s.tilted[c.at]
	decay := math.Exp(-c.s.tilt * c.s.step)
	c.mass = (c.mass + gain) * decay
	c.less = (c.less + gain) * decay * math.Exp(-c.s.step)
	c.at--
}

// delta returns the bound on delta at the position plus rest, which is within
// [0, step].
func (c *curve) delta(rest float64) float64 {
	hockeyStick := c.mass - math.Exp(rest)*c.less + float64(c.side)*slack
	if c.side == below {
		return math.Max(0, hockeyStick) * math.Exp(c.logUnit())
	}
	return hockeyStick*math.Exp(c.logUnit()) + c.s.beyond
}

// deltaAt returns the bound on delta at epsilon; ok is false when epsilon lies
// below the window.
func (s sum) deltaAt(epsilon float64, side bound) (delta float64, ok bool) {
	c := newCurve(s, side)
	for c.at > 0 && c.loss() > epsilon {
		c.down()
	}
	rest := epsilon - c.loss()
	if rest < 0 {
		return 0, false
	}
	return c.delta(math.Min(rest, s.step)), true
}

// epsilonAt returns the bound on the smallest epsilon, 0 or above, whose delta
// is at most delta; ok is false when it lies below the window.
func (s sum) epsilonAt(delta float64, side bound) (epsilon float64, ok bool) {
	if side == above && s.beyond >= delta {
		return math.Inf(1), true
	}
	c := newCurve(s, side)
	for c.delta(0) <= delta {
		if c.loss() <= 0 {
			return 0, true
		}
		if c.at == 0 {
			return 0, false
		}
		c.down()
	}
	return math.Max(0, c.loss()+c.crossing(delta)), true
}

// crossing returns how far above the position delta falls to the given value:
// mass - exp(rest) x less is solved for rest.
func (c *curve) crossing(delta float64) float64 {
	target := delta
	if c.side == above {
		target -= c.s.beyond
	}
	target = target*math.Exp(-c.logUnit()) - float64(c.side)*slack
	rest := math.Log((c.mass - target) / c.less)
	return math.Min(math.Max(0, rest), c.s.step)
}
