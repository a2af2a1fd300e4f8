package pld

import "math"

// deltaSearch bounds delta at an epsilon in units of losses. It repeats with a better guess of
// delta until the guess is confirmed, because the truncation and the resolution of the inversion
// are relative to delta.
type deltaSearch struct {
	parts         []part
	epsilon, unit float64
}

func deltaFor(parts []part, epsilon float64) Bounds {
	d := newDirection(parts, 1e-20, 1)
	if d.highest() <= epsilon {
		return Bounds{}
	}
	unit := d.unitFor(epsilon, -50)
	at := func(epsilon float64) Bounds { return deltaSearch{parts, epsilon, unit}.bounds() }
	if unit == 1 {
		return at(epsilon)
	}
	upper := at(epsilon/unit-unitShift).Upper / -math.Expm1(-unitShift) // also holds if epsilon is below unitShift
	return Bounds{at(epsilon / unit).Lower, math.Min(1, upper)}
}

// bounds inverts all sums, and a subset of them if the bounds are too far apart, as
// direction.epsilon does. Both pairs of bounds are proofs.
func (s deltaSearch) bounds() Bounds {
	b := s.refined(unknownDelta, direction.inverted)
	if !poor(b, 1) {
		return b
	}
	split := s.refined(b.Upper, direction.invertedBySplit)
	return Bounds{math.Max(b.Lower, split.Lower), math.Min(b.Upper, split.Upper)}
}

// unknownDelta is the first guess.
const unknownDelta = 1e-14

// inverted returns the inversion of all sums near epsilon.
func (d direction) inverted(epsilon, logDelta, width float64) *inversion {
	return newInversion(d, d.settingFor(epsilon, logDelta, width))
}

// invertedBySplit returns the inversion of the sums with a medium loss and no high loss, with
// bounds on the other sums; nil if losses cannot be split.
func (d direction) invertedBySplit(epsilon, logDelta, width float64) *inversion {
	s, found := d.splitAt(epsilon, logDelta)
	if !found {
		return nil
	}
	return newSplitInversion(s, s.settingFor(d, epsilon, logDelta, width))
}

// refined bounds delta by repeated inversions, starting from a guess.
func (s deltaSearch) refined(delta float64, invert func(d direction, epsilon, logDelta, width float64) *inversion) Bounds {
	b, width := Bounds{0, 1}, 0.0
	for range maxGuesses {
		v := invert(newDirection(s.parts, tailError*delta, s.unit), s.epsilon, math.Log(delta), width)
		if v == nil {
			return b
		}
		b.Lower, b.Upper = v.bounds(s.epsilon)
		last := delta
		delta = math.Max(b.Upper, 1e-280)
		width = v.finer(finalGap * b.Upper / (b.Upper - b.Lower))
		if width > v.width/1.5 && delta > last/2 && delta < last*2 {
			break
		}
	}
	return b
}
