package pld

import "math"

// change is the difference between two neighbouring data sets.
type change int

const (
	// adding and removing a member of the population of a Poisson sample.
	adding change = iota
	removing
	// replacing a member by another, for a sample of fixed size.
	replacing
)

// pair is the pair of output distributions of one round that dominates all others.
//
// For a Poisson sample they are normal noise and the mixture in which a member was
// sampled with probability rate (Mironov, Talwar and Zhang 2019, section 3). removing
// takes the mixture for p and the noise for q; adding exchanges them.
//
// For a sample of fixed size, with a share of rate of the members, the package comment derives
// them: p has the losses above 0 of removing, those below 0 of adding, and the remaining mass at 0.
//
// Losses are functions of the log ratio, the loss of a member who takes part with
// certainty: an output that is g standard deviations from a component's mean has the log
// ratio component.ratio + g/sigma.
type pair struct {
	rate   float64 // within (0, 1]
	sigma  float64 // noise relative to the sensitivity, at least minSigma
	change change
	unit   float64 // of the losses
	kept   *span   // nil for all outputs
	group  *group  // nil for one member
}

// span selects outputs of a pair: losses of removing with a log ratio within (over, upTo], and
// losses of adding with a log ratio of at most adding. It includes the atom if over is -Inf.
type span struct{ over, upTo, adding float64 }

var everything = span{math.Inf(-1), math.Inf(1), math.Inf(1)}

// component is a normal distribution of the mixture p, or its part between two log ratios.
type component struct {
	weight float64 // share of p if whole
	ratio  float64 // log ratio at the mean
	sign   float64 // 1 for losses of removing, -1 for losses of adding
	above  float64 // log ratio at the start; -Inf if whole
	below  float64 // log ratio at the end; +Inf if whole
}

// components returns the components of p, without its atom.
func (d pair) components() []component {
	all := d.wholeComponents()
	if d.kept == nil {
		return all
	}
	var kept []component
	for _, c := range all {
		c.below = d.kept.adding
		if c.sign > 0 {
			c.above, c.below = math.Max(c.above, d.kept.over), d.kept.upTo
		}
		kept = append(kept, c)
	}
	return kept
}

func (d pair) wholeComponents() []component {
	if d.group != nil {
		return d.componentsOfGroup()
	}
	atMean, least, most := 0.5/d.sigma/d.sigma, math.Inf(-1), math.Inf(1)
	switch d.change {
	case adding:
		return []component{{1, -atMean, -1, least, most}}
	case removing:
		return []component{{1 - d.rate, -atMean, 1, least, most}, {d.rate, atMean, 1, least, most}}
	case replacing:
		return []component{{1 - d.rate, -atMean, 1, 0, most}, {d.rate, atMean, 1, 0, most}, {1, -atMean, -1, 0, most}}
	}
	return nil
}

// atoms returns the mass of p outside the components.
func (d pair) atoms() []point {
	if d.group != nil {
		return d.atomsOfGroup()
	}
	if atom := d.atom(); atom > 0 {
		return []point{{logMass: math.Log(atom)}}
	}
	return nil
}

// atom returns the probability of the loss 0 of one member.
func (d pair) atom() float64 {
	if d.change != replacing || d.kept != nil && !math.IsInf(d.kept.over, -1) {
		return 0
	}
	return (1 - d.rate) * math.Erf(0.5/d.sigma/math.Sqrt2)
}

// loss returns the privacy loss, log(p/q) in units, of a component at a log ratio.
func (d pair) loss(c component, ratio float64) float64 {
	return c.sign * d.lossOfRemoving(ratio) / d.unit
}

// lossOfRemoving returns log(1 - rate + rate x exp(ratio)).
func (d pair) lossOfRemoving(ratio float64) float64 {
	switch {
	case d.group != nil:
		loss, _, _ := d.group.at(ratio)
		return loss
	case d.rate == 1:
		return ratio
	}
	if ratio > 700 { // exp overflows
		return ratio + math.Log(d.rate)
	}
	if rise := d.rate * math.Expm1(ratio); math.Abs(rise) < 0.5 {
		return math.Log1p(rise)
	}
	return math.Log((1 - d.rate) + d.rate*math.Exp(ratio))
}

// cancelled returns the size of the terms that cancel in the loss at a log ratio, beyond those of one
// member.
func (d pair) cancelled(ratio float64) float64 {
	if d.group == nil {
		return 0
	}
	_, _, size := d.group.at(ratio)
	return size / d.unit
}

// ratioAt returns the log ratio at which removing has the given loss, 0 or above.
func (d pair) ratioAt(loss float64) float64 {
	loss *= d.unit
	switch {
	case d.group != nil:
		return d.group.ratioAt(loss)
	case loss > 700: // exp overflows
		return loss - math.Log(d.rate)
	}
	return math.Log1p(math.Expm1(loss) / d.rate)
}

// slope returns the derivative of the loss by the log ratio. It rises with the ratio; for one member
// it reaches half its maximum at the ratio that turns returns.
func (d pair) slope(ratio float64) float64 {
	switch {
	case d.group != nil:
		_, slope, _ := d.group.at(ratio)
		return slope / d.unit
	case d.rate == 1:
		return 1 / d.unit
	}
	return 1 / (1 + (1-d.rate)/d.rate*math.Exp(-ratio)) / d.unit
}

// turns returns the log ratio at which both parts of the mixture have equal weight, or an interval
// of such ratios for a group. The loss is analytic except at these points plus odd multiples of pi i.
func (d pair) turns() (low, high float64) {
	if d.group != nil {
		return d.group.turns()
	}
	turn := math.Log1p(-d.rate) - math.Log(d.rate)
	return turn, turn
}
