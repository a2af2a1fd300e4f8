package pld

import "math"

// inversion gives delta as a function of epsilon. With s = tilt + iy,
//
//	delta(epsilon) = 1/(2 pi) x integral over y of exp(K(s) - s epsilon) / (s(s+1)),
//
// Here K is the log of the mean of exp(s x loss), summed over the rounds. A
// factor of exp(width^2 (s^2+s)/2) makes the integral converge fast: it is one more Gaussian
// mechanism, with noise 1/width, which raises delta by at most the sum of raised. Terms are
// relative to exp(logUnit) at the setting's epsilon. The package comment has the proofs.
type inversion struct {
	setting
	step          float64      // between frequencies
	terms, raised []complex128 // at frequencies 0, step, 2 x step...
	logUnit       float64
	slack         float64 // of the sums, for rounding and truncation
	slackByLoss   float64 // additional slack per unit of epsilon
	aliasLog      float64 // K at aliasTilt, smoothed
	beyond        float64 // probability left out
	most          float64 // largest transform, relative to exp(logMoment)
	apart         apart   // contribution of sums that are not inverted
}

// newInversion composes the rounds. With the zero setting, its bounds hold for any mechanism.
func newInversion(d direction, s setting) *inversion {
	if !s.found() {
		return &inversion{setting: s, logUnit: math.Inf(1)}
	}
	v := emptyInversion(s)
	f := newFrequencies(v.size(), v.step, s)
	for _, p := range d.parts {
		rough, _ := tilted(p.rough, s.tilt)
		points := p.points(d.outside, resolution{s.tilt, f.top(), rough})
		f.multiply(newTransform(points, f), p.rounds)
		aliased, _ := tilted(points, s.aliasTilt)
		v.aliasLog += p.rounds * aliased
		v.beyond += p.rounds * d.outside
	}
	v.finish(f)
	return v
}

// emptyInversion returns an inversion at a valid setting before any composition.
func emptyInversion(s setting) *inversion {
	return &inversion{setting: s, step: 2 * math.Pi / s.window, most: 1}
}

func (v *inversion) size() int {
	return int(math.Ceil(math.Min(v.setting.frequencies(), maxFrequencies))) + 1
}

// frequencies accumulates the integrand.
type frequencies struct {
	setting
	step      float64
	logSize   []float64 // of the integrand, relative to frequency 0
	logMost   []float64 // logSize with the errors of the transform
	phase     []float64
	logMoment float64
	// momentError is the error of logMoment.
	momentError float64
	shift       float64 // mean of the tilted sum, the origin of phases
	shifts      float64 // sum of the absolute values of the terms of shift
}

func newFrequencies(n int, step float64, s setting) *frequencies {
	f := &frequencies{setting: s, step: step, logSize: make([]float64, n), logMost: make([]float64, n), phase: make([]float64, n)}
	for k := range n {
		y := float64(k) * step
		f.logSize[k] = -s.width * s.width * y * y / 2
		f.logMost[k] = f.logSize[k]
		f.phase[k] = y * s.width * s.width * (s.tilt + 0.5)
	}
	return f
}

// top is the highest frequency.
func (f *frequencies) top() float64 { return f.step * float64(len(f.phase)-1) }

// transform is the mean of exp((tilt + iy) x loss) over the outputs of a round, at all frequencies y.
type transform struct {
	logMoment float64 // log of the transform at y = 0
	mean      float64 // of the tilted loss
	// values are relative to frequency 0 and to the phase of the mean. Their error is at most
	// fixed + y x perFrequency.
	values              []complex128
	fixed, perFrequency float64
}

func newTransform(points []point, f *frequencies) transform {
	logMoment, masses := tilted(points, f.tilt)
	t := transform{logMoment: logMoment}
	for i, m := range masses {
		t.mean += m * points[i].loss
	}
	offsets := make([]float64, len(points))
	for i, pt := range points {
		offsets[i] = pt.loss - t.mean
	}
	t.fixed, t.perFrequency = transformErrors(points, masses, f.tilt, logMoment)
	t.values = spectrum(offsets, masses, f.step, len(f.phase))
	return t
}

func (f *frequencies) multiply(t transform, rounds float64) {
	f.logMoment += rounds * t.logMoment
	f.shift += rounds * t.mean
	f.shifts += rounds * math.Abs(t.mean)
	f.momentError += rounds * t.fixed
	for k, c := range t.values {
		size := cabs(c)
		err := t.fixed + t.perFrequency*float64(k)*f.step
		f.logSize[k] += rounds * math.Log(size)
		f.logMost[k] += rounds * math.Log(size+err)
		f.phase[k] += rounds * math.Atan2(imag(c), real(c))
	}
}

// finish converts frequencies to terms, and adds up their errors.
func (v *inversion) finish(f *frequencies) {
	v.aliasLog += v.smoothing(v.aliasTilt)
	v.logUnit = f.logMoment + v.smoothing(v.tilt) - v.tilt*v.epsilon
	raise := v.width * v.width * math.Exp(v.width*v.width/8)
	n := len(f.phase)
	v.terms, v.raised = make([]complex128, 0, n), make([]complex128, 0, n)
	total, moment := 0.0, 0.0 // of the sizes of all terms, and of the sizes times frequency
	for k := range n {
		y := float64(k) * v.step
		share := v.step / math.Pi
		if k == 0 {
			share /= 2
		}
		inverse := 1 / (complex(v.tilt, y) * complex(v.tilt+1, y))
		weight := share * (cabs(inverse) + raise)
		size := math.Exp(f.logSize[k])
		v.slack += weight * (math.Exp(f.logMost[k]) - size)
		total += weight * size
		moment += weight * size * y
		term := rotate(-f.phase[k]-y*(f.shift-v.epsilon)) * complex(share*size, 0)
		v.terms = append(v.terms, term*inverse)
		v.raised = append(v.raised, term*complex(raise, 0))
	}
	v.slack += total * (summing + math.Expm1(f.momentError) + rounding*(math.Abs(f.logMoment)+math.Abs(v.logUnit)+v.tilt*math.Abs(v.epsilon)))
	v.slack += rounding * moment * (f.shifts + math.Abs(v.epsilon))
	v.slackByLoss = rounding * (moment + total*v.tilt)
	top := float64(n-1) * v.step
	v.slack += v.most * math.Exp(-v.width*v.width*top*top/2) / (math.Pi * v.width * v.width * top) * (1/(top*top) + raise)
	v.trim(1e-22 * total)
}

// summing bounds the rounding error of a sum of maxFrequencies terms, relative to the sum of their
// sizes.
const summing = maxFrequencies * 2.3e-16

// trim drops the last terms, as many as add up to at most little.
func (v *inversion) trim(little float64) {
	dropped, n := 0.0, len(v.terms)
	for n > 1 && dropped+cabs(v.terms[n-1])+cabs(v.raised[n-1]) <= little {
		n--
		dropped += cabs(v.terms[n]) + cabs(v.raised[n])
	}
	v.terms, v.raised = v.terms[:n], v.raised[:n]
	v.slack += little
}

// rotate returns exp(-i angle).
func rotate(angle float64) complex128 {
	sin, cos := math.Sincos(angle)
	return complex(cos, -sin)
}

func cabs(c complex128) float64 { return math.Hypot(real(c), imag(c)) }

// bounds returns the bounds on delta at epsilon.
func (v *inversion) bounds(epsilon float64) (lower, upper float64) {
	shift := epsilon - v.setting.epsilon
	sum, raised := 0.0, 0.0
	turn, rotation := rotate(v.step*shift), complex(1, 0)
	for k, term := range v.terms {
		if k%64 == 0 { // limits the growth of rounding errors
			rotation = rotate(float64(k) * v.step * shift)
		}
		sum += real(term)*real(rotation) - imag(term)*imag(rotation)
		raised += real(v.raised[k])*real(rotation) - imag(v.raised[k])*imag(rotation)
		rotation *= turn
	}
	slack := v.slack + v.slackByLoss*math.Abs(epsilon)
	unit := math.Exp(v.logUnit - v.tilt*shift)
	if math.IsInf(unit, 1) {
		return 0, 1
	}
	upper = unit*(sum+slack) + v.beyond
	lower = unit*(sum-raised-slack) - v.alias(epsilon)
	least, most := v.apart.bounds(epsilon)
	lower, upper = lower+least, upper+most
	if !(lower > 0) { // includes NaN
		lower = 0
	}
	if !(upper < 1) {
		upper = 1
	}
	return lower, upper
}

// hidden returns roughly the uncertainty of epsilon from rounding errors, which narrower smoothing
// does not reduce.
func (v *inversion) hidden(epsilon float64) float64 {
	slack := v.slack + v.slackByLoss*math.Abs(epsilon)
	return 2 * slack * math.Exp(v.logUnit-v.tilt*(epsilon-v.setting.epsilon)-v.logDelta) / v.tilt
}

// alias bounds the difference between the sum over frequencies and the integral: the tilted delta
// at all other epsilons that are a multiple of the window away.
func (v *inversion) alias(epsilon float64) float64 {
	below, above := v.tilt*v.window, (v.aliasTilt-v.tilt)*v.window
	return math.Exp(-below)/-math.Expm1(-below) + math.Exp(v.aliasLog-v.aliasTilt*epsilon-above)/-math.Expm1(-above)
}
