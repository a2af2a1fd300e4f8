package pld

import (
	"math"
	"testing"
)

// Losses of a round with hardly any noise are counted in large units, and the bounds hold even next to
// an epsilon of 0, less than a unit.
func TestDeltaOfQuietAndLoudRoundsHoldsThemIntegratedDirectly(t *testing.T) {
	t.Parallel()
	loud, quiet := Step{0.3358991, 0.2657493, 1}, Step{0.0437484, 0.00176857, 1}
	for name, of := range accountants {
		changes := []change{removing, adding}
		if name == "fixed size" {
			changes = []change{replacing}
		}
		for _, epsilon := range []float64{0, 0.036077, 0.5, 20} {
			want := deltaOfBoth(loud, quiet, epsilon, changes, 40_000)
			got, err := of.delta([]Step{quiet, loud}, epsilon)
			if err != nil || got.Lower > want*(1+1e-4) || got.Upper < want*(1-1e-4) || epsilon < 1 && got.Upper > 1.1*want {
				t.Errorf("%s, epsilon %v: delta %+v (%v), integrated %v", name, epsilon, got, err, want)
			}
		}
	}
}

// In a round of all members, the component of absent members has no mass and gets no panels.
func TestRoundsOfEverybodyComposeWithSampledOnes(t *testing.T) {
	t.Parallel()
	steps := []Step{{7.938651677e-6, 1.410016795, 1}, {1, 0.00292963818, 1}}
	for name, of := range accountants {
		got, err := of.delta(steps, 865.73841428)
		least := GaussianDelta(steps[1].Sigma, 865.73841428)
		if err != nil || got.Upper < least*(1-1e-9) || got.Lower > got.Upper {
			t.Errorf("%s: delta %+v, %v; that of the round of everybody is %v", name, got, err, least)
		}
	}
	p := pair{rate: 1, sigma: 0.1, change: removing, unit: 1}
	if n := len(p.points(1e-12, resolution{})); n > 10*panelOrder {
		t.Errorf("a round of everybody has %d points", n)
	}
}

// A round without noise gives away who is in it, which may be nobody.
func TestRoundsWithoutNoiseCostAsMuchAsTheyHaveMembers(t *testing.T) {
	t.Parallel()
	for name, of := range accountants {
		steps := []Step{{0.01, 0, 1}}
		if got, err := of.delta(steps, 1); err != nil || got != (Bounds{0.01, 0.01}) {
			t.Errorf("%s: delta %+v (%v), want 0.01", name, got, err)
		}
		if got, err := of.epsilon(steps, 0.1); err != nil || got != (Bounds{}) {
			t.Errorf("%s: epsilon %+v (%v) at a delta of more than the rate, want 0", name, got, err)
		}
		if got, err := of.epsilon(steps, 0.001); err != nil || !math.IsInf(got.Lower, 1) {
			t.Errorf("%s: epsilon %+v (%v) at a delta of less than the rate, want +Inf", name, got, err)
		}
	}
}

func TestGaussianDeltaIsExactOnBothSidesOfZero(t *testing.T) {
	t.Parallel()
	if got, want := GaussianDelta(1e16, 0), 0.3989422804014327e-16; math.Abs(got/want-1) > 1e-12 {
		t.Errorf("delta at 0 with much noise is %v, want %v", got, want)
	}
	// delta(-x) is 1 - exp(-x) (1 - delta(x)).
	for _, epsilon := range []float64{0.5, 3, 1e4} {
		got, want := GaussianDelta(0.7, -epsilon), 1-math.Exp(-epsilon)*(1-GaussianDelta(0.7, epsilon))
		if !(math.Abs(got-want) < 1e-14) {
			t.Errorf("delta at %v is %v, want %v", -epsilon, got, want)
		}
	}
}
