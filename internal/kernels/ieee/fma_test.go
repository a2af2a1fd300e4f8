package ieee

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exact computes a*b + c in unlimited precision and rounds once.
func exact(a, b, c float32) float32 {
	wide := new(big.Float).SetPrec(2000)
	wide.Mul(wide.SetFloat64(float64(a)), big.NewFloat(float64(b)))
	wide.Add(wide, big.NewFloat(float64(c)))
	rounded, _ := wide.Float32()
	return rounded
}

func finite(x float32) bool { return x-x == 0 }

func check(t *testing.T, a, b, c float32) {
	t.Helper()
	if !finite(a) || !finite(b) || !finite(c) {
		return
	}
	got, want := FMA32(a, b, c), exact(a, b, c)
	if got != want {
		t.Fatalf("FMA32(%x, %x, %x) = %x, want %x", a, b, c, got, want)
	}
}

func TestFMA32RoundsOnce(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		check(t, math.Float32frombits(rng.Uint32()), math.Float32frombits(rng.Uint32()), math.Float32frombits(rng.Uint32()))
	}
}

// Short significands and near exponents make ties and cancellations common.
func TestFMA32RoundsTiesOnce(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	short := func() float32 {
		significand := float64(1+rng.IntN(1<<12)) + float64(rng.IntN(3)-1)*0x1p-12
		return float32(math.Copysign(math.Ldexp(significand, rng.IntN(60)-30), rng.Float64()-0.5))
	}
	for range 100_000 {
		a, b := short(), short()
		check(t, a, b, short())
		check(t, a, b, -a*b)
		check(t, a*0x1p-70, b*0x1p-70, short()*0x1p-126)
	}
}

func TestFMA32SpecialValues(t *testing.T) {
	t.Parallel()
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	negativeZero := float32(math.Copysign(0, -1))
	for _, c := range []struct{ a, b, c, want float32 }{
		{inf, 2, 1, inf}, {inf, -2, 1, -inf}, {1, 2, -inf, -inf}, {inf, 0, 1, nan}, {inf, 1, -inf, nan},
		{nan, 1, 1, nan}, {1, 1, nan, nan},
		{math.MaxFloat32, 2, 0, inf}, {math.MaxFloat32, 2, -math.MaxFloat32, math.MaxFloat32},
		{1, 1, -1, 0}, {negativeZero, 1, negativeZero, negativeZero}, {negativeZero, 1, 0, 0},
		{-0x1p-80, 0x1p-80, 0, negativeZero},
		// A tie of float32 that the third term, far below float64's reach, breaks.
		{1 + 0x1p-23, 1 + 0x1p-12, 0x1p-149, 1 + 0x1p-12 + 0x1p-23},
		{0x1p-24, 0x1p-24, 1 + 0x1p-23, 1 + 0x1p-23},
	} {
		got := FMA32(c.a, c.b, c.c)
		if math.Float32bits(got) != math.Float32bits(c.want) && got == got {
			t.Errorf("FMA32(%x, %x, %x) = %x, want %x", c.a, c.b, c.c, got, c.want)
		}
		if (got != got) != (c.want != c.want) {
			t.Errorf("FMA32(%x, %x, %x) = %x, want %x", c.a, c.b, c.c, got, c.want)
		}
	}
}

// FuzzFMA32 compares with unlimited precision.
func FuzzFMA32(f *testing.F) {
	f.Add(uint32(0x3f800001), uint32(0x3f800800), uint32(1))
	f.Add(uint32(0x00000001), uint32(0x3f000000), uint32(0x80000001))
	f.Fuzz(func(t *testing.T, a, b, c uint32) {
		check(t, math.Float32frombits(a), math.Float32frombits(b), math.Float32frombits(c))
	})
}
