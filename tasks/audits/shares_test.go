package audits

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Values of scipy.stats.beta.ppf.
func TestIntervalsAreThoseOfClopperAndPearson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		count, of int
		low, high float64
	}{
		{0, 10, 0, 0.308497107818761},
		{10, 10, 0.691502892181239, 1},
		{1, 20, 0.0012650894979498, 0.248732762772028},
		{12, 20, 0.36054258730749, 0.808809939274693},
		{652, 10000, 0.0604384399001207, 0.0702166438886733},
		{13105, 100000, 0.128964191944472, 0.133157232507305},
		{1, 1000000, 2.53178076637942e-08, 5.57163065516694e-06},
		{999999, 1000000, 0.999994428369345, 0.999999974682192},
		{3000000, 10000000, 0.299715982165395, 0.300284133633842},
	} {
		s := NewShare(c.count, c.of)
		if s.Share != float64(c.count)/float64(c.of) || math.Abs(s.Low-c.low) > 1e-9*c.low || math.Abs(s.High-c.high) > 1e-9*c.high {
			t.Errorf("%d of %d: %v to %v, want %v to %v", c.count, c.of, s.Low, s.High, c.low, c.high)
		}
	}
}

func TestOfNothingNothingIsKnown(t *testing.T) {
	t.Parallel()
	if s := NewShare(0, 0); s.Share != 0 || s.Low != 0 || s.High != 1 {
		t.Errorf("%+v", s)
	}
	if s := new(Ratio).Share(); s.Share != 0 || s.Low != 0 || s.High != 1 {
		t.Errorf("%+v", s)
	}
	if p := NewShare(0, 0).AtLeast(0.1); p != 1 {
		t.Errorf("p %v", p)
	}
}

// The two are one where every group has one thing.
func TestARatioOfSinglesIsAShare(t *testing.T) {
	t.Parallel()
	var r Ratio
	for i := range 1000 {
		r.Add(i%7/6, 1)
	}
	got, want := r.Share(), NewShare(142, 1000)
	if got.Count != want.Count || math.Abs(got.Low-want.Low) > 2e-5 || math.Abs(got.High-want.High) > 2e-5 {
		t.Errorf("%+v, as a share %+v", got, want)
	}
}

// Where all of a group are alike, ten in a group are worth one.
func TestThingsThatAreAlikeCountOnce(t *testing.T) {
	t.Parallel()
	var r Ratio
	for i := range 1000 {
		r.Add(10*(i%5/4), 10)
	}
	got, want := r.Share(), NewShare(200, 1000)
	if got.Share != 0.2 || got.Of != 10_000 || math.Abs(got.Low-want.Low) > 1e-4 || math.Abs(got.High-want.High) > 1e-4 {
		t.Errorf("%+v, of the groups %+v", got, want)
	}
}

// Of 1000 intervals of groups of dependent things, at least 925 contain the truth: with a
// coverage of 95%, fewer do with probability 3e-4. The seed is fixed.
func TestTheIntervalOfARatioCoversTheTruth(t *testing.T) {
	t.Parallel()
	rng, covered := rand.New(rand.NewPCG(3, 3)), 0
	for range 1000 {
		var r Ratio
		for range 300 {
			p, count, size := 0.4*rng.Float64(), 0, 1+rng.IntN(9)
			for range size {
				if rng.Float64() < p {
					count++
				}
			}
			r.Add(count, size)
		}
		if s := r.Share(); s.Low <= 0.2 && 0.2 <= s.High {
			covered++
		}
	}
	if covered < 925 {
		t.Errorf("%d of 1000 intervals contain the truth", covered)
	}
}
