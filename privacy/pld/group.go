package pld

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

// GroupStep is a Gaussian mechanism on a sample that contains a random number of the members of a
// group.
type GroupStep struct {
	Chances []float64 // Chances[i] is the probability that i members take part; they add up to 1
	Sigma   float64   // noise relative to the distance by which one member moves the sum, above 0
	Rounds  int       // 1 or more
}

// GroupEpsilon returns an upper bound on the smallest epsilon at delta, within (0, 1), if all members
// of the group are added or all are removed, for Poisson samples. Equal updates of all members attain
// it, to 1e-5. It is +Inf if more than 64 members may be in a sample.
func GroupEpsilon(s GroupStep, delta float64) (float64, error) {
	return s.epsilon(delta, removing, adding)
}

// FixedSizeGroupEpsilon is GroupEpsilon for samples of fixed size, drawn without replacement, and
// replacing all members of the group. The package comment has its pair. The bound is also +Inf if a
// round may have losses above about 600.
func FixedSizeGroupEpsilon(s GroupStep, delta float64) (float64, error) {
	return s.epsilon(delta, replacing)
}

func (s GroupStep) epsilon(delta float64, changes ...change) (epsilon float64, err error) {
	if !(delta > 0 && delta < 1) || !(s.Sigma > 0) || s.Rounds < 1 || len(s.Chances) < 2 {
		return 0, fmt.Errorf("%d chances, noise %v, %d rounds, delta %v: expected two chances, noise above 0, a round and a delta within (0, 1)",
			len(s.Chances), s.Sigma, s.Rounds, delta)
	}
	left := delta * tailError
	chances, beyond := cutTail(s.Chances, left/float64(s.Rounds))
	most := float64(len(chances) - 1)
	if delta < minDelta || s.Sigma < minSigma || most > maxTogether {
		return math.Inf(1), nil
	}
	for _, seen := range changes {
		p := part{pair{rate: 1 - chances[0], sigma: s.Sigma, change: seen, group: newGroup(chances, s.Sigma)}, float64(s.Rounds), nil}
		if seen == replacing && !p.group.bridge(s.Sigma) {
			return math.Inf(1), nil
		}
		found := epsilonFor([]part{p}, delta-beyond*float64(s.Rounds), epsilon)
		epsilon = math.Max(epsilon, found.Upper)
	}
	return epsilon, nil
}

// maxTogether is the largest number of members of a group in a sample; the time of a quadrature grows
// with its square.
const maxTogether = 64

// cutTail returns the chances of the numbers of members that are not negligible, given that the
// number is one of them, and the probability of larger numbers. It is the same for both data sets, so
// its sum over the rounds is added to delta.
func cutTail(chances []float64, negligible float64) (kept []float64, beyond float64) {
	n := len(chances)
	for n > 2 && beyond+chances[n-1] < negligible {
		n--
		beyond += chances[n]
	}
	kept = make([]float64, n)
	floats.ScaleTo(kept, 1/floats.Sum(chances[:n]), chances[:n])
	return kept, beyond
}

// group is the number of members of a group in a sample.
type group struct {
	chances []float64 // of 0, 1... members
	penalty []float64 // i(i-1)/2/sigma^2
	start   float64   // least log ratio of the components under replacing
	atoms   []point   // under replacing; losses are not in units
}

func newGroup(chances []float64, sigma float64) *group {
	g := &group{chances: chances, penalty: make([]float64, len(chances))}
	for i := range chances {
		g.penalty[i] = float64(i*(i-1)) / 2 / sigma / sigma
	}
	return g
}

// at returns the loss at a log ratio of one member, the log of the sum of chances[i] exp(i ratio -
// penalty[i]), with its derivative, and the size of the terms that cancel in it.
func (g *group) at(ratio float64) (loss, slope, size float64) {
	peak := 0.0
	for i := range g.chances {
		peak = math.Max(peak, float64(i)*ratio-g.penalty[i])
	}
	rise, rises, total, first, second := 0.0, 0.0, 0.0, 0.0, 0.0
	for i, chance := range g.chances {
		if chance == 0 {
			continue
		}
		log := float64(float64(i)*ratio) - g.penalty[i]
		by := math.Expm1(log)
		rise += float64(chance * by)
		rises += float64(chance * math.Abs(by))
		weight := float64(chance * math.Exp(log-peak))
		total += weight
		first += float64(weight * float64(i))
		second += float64(weight * g.penalty[i])
	}
	if math.Abs(rise) < 0.5 {
		return math.Log1p(rise), first / total, rises + second/total
	}
	return peak + math.Log(total), first / total, peak + second/total
}

// ratioAt returns the log ratio at which the loss is the given one, 0 or above.
func (g *group) ratioAt(loss float64) float64 {
	below := func(ratio float64) bool {
		at, _, _ := g.at(ratio)
		return at < loss
	}
	low, high := 0.0, 1.0
	for below(high) {
		low, high = high, 2*high
	}
	return bisect(low, high, below)
}

// turns returns an interval that holds the real parts of the singularities of the loss: it is the
// log of a polynomial in exp(ratio) with negative roots, as the chances are binomial or
// hypergeometric, and penalty keeps roots real (Laguerre 1884). Their absolute values lie between
// the quotients of successive coefficients (Enestrom 1893, Kakeya 1912).
func (g *group) turns() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for i, chance := range g.chances[1:] {
		turn := math.Log(g.chances[i]) - math.Log(chance) + g.penalty[i+1] - g.penalty[i]
		if g.chances[i] > 0 {
			low, high = math.Min(low, turn), math.Max(high, turn)
		}
	}
	return low, high
}

// componentsOfGroup returns the components of p: normal distributions around 0, 1... members.
func (d pair) componentsOfGroup() []component {
	gap, start := 1/d.sigma/d.sigma, math.Inf(-1)
	if d.change == replacing {
		start = d.group.start
	}
	adds := component{1, -gap / 2, -1, start, math.Inf(1)}
	if d.change == adding {
		return []component{adds}
	}
	var all []component
	for i, chance := range d.group.chances {
		all = append(all, component{chance, (float64(i) - 0.5) * gap, 1, start, math.Inf(1)})
	}
	if d.change == replacing {
		all = append(all, adds)
	}
	return all
}

// atomsOfGroup returns the kept atoms, with losses in units.
func (d pair) atomsOfGroup() (kept []point) {
	for _, a := range d.group.atoms {
		a.loss /= d.unit
		a.size /= d.unit
		if d.kept == nil || d.keeps(a.loss) {
			kept = append(kept, a)
		}
	}
	return kept
}

func (d pair) keeps(loss float64) bool {
	switch {
	case loss > 0:
		ratio := d.ratioAt(loss)
		return ratio > d.kept.over && ratio <= d.kept.upTo
	case loss < 0:
		return d.ratioAt(-loss) <= d.kept.adding
	}
	return math.IsInf(d.kept.over, -1)
}

// knots is the number of steps between the ends of the bridge.
const knots = 256

// maxBridge is the largest loss of an atom, so that its exponential is finite.
const maxBridge = 600

// bridge sets the start of the components for samples of fixed size, and the atoms between their
// losses and their negatives: the pair of outputs in the package comment. It returns false if a loss
// is above maxBridge.
func (g *group) bridge(sigma float64) bool {
	most := len(g.chances) - 1
	if g.penalty[most] > maxBridge {
		return false
	}
	g.start = float64(most-1) / sigma / sigma
	var hull []knot
	for n := range knots + 1 {
		k := g.knotAt(0.5+float64(float64(n)/knots*float64(most-1)), sigma)
		for len(hull) > 1 && hull[len(hull)-1].slopeTo(k) < hull[len(hull)-2].slopeTo(hull[len(hull)-1]) {
			hull = hull[:len(hull)-1]
		}
		if len(hull) == 0 || k.above > hull[len(hull)-1].above {
			hull = append(hull, k)
		}
	}
	last := 0.0 // minus the slope to the left
	for i, k := range hull {
		next := upperTail((float64(most) - 0.5) / sigma)
		if i+1 < len(hull) {
			next = -k.slopeTo(hull[i+1])
		}
		if i == 0 {
			g.addAtom(0, 1-k.delta-2*next)
		} else {
			loss := math.Log1p(k.above)
			g.addAtom(loss, (last-next)*(1+k.above))
			g.addAtom(-loss, last-next)
		}
		last = next
	}
	return true
}

func (g *group) addAtom(loss, mass float64) {
	if mass > 0 { // rounding may take it below 0
		g.atoms = append(g.atoms, point{loss: loss, logMass: math.Log(mass), size: math.Abs(loss)})
	}
}

// knot is a bound delta on the hockey-stick divergence at 1 + above.
type knot struct{ above, delta float64 }

func (k knot) slopeTo(next knot) float64 { return (next.delta - k.delta) / (next.above - k.above) }

// knotAt returns the bound in which i members have the ratio exp of the largest j at - j^2/2, over
// sigma^2, for j of at most i.
func (g *group) knotAt(at, sigma float64) (k knot) {
	log := 0.0
	for i, chance := range g.chances {
		if i == 0 {
			continue
		}
		log = math.Max(log, float64(i)*(at-float64(i)/2)/sigma/sigma)
		k.above += float64(chance * math.Expm1(log))
		k.delta += float64(chance * GaussianDelta(sigma/float64(i), log))
	}
	return k
}
