package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// reductions emits the kernels that turn vectors into one number. Element i
// belongs to lane i mod reductionLanes, and the lanes are combined by halves.
func (s isa) reductions() {
	s.max()
	s.expSum("expSum", "(dst, x []float32, max float32) float64", true)
	s.expSum("sumExp", "(x []float32, max float32) float64", false)
	s.dot()
}

// perReduction is how many registers the lanes of a reduction fill with
// elements of the given bytes.
func (s isa) perReduction(bytes int) int { return reductionLanes * bytes / s.bytes() }

func (s isa) max() {
	s.function("max", "(x []float32) float32")
	x, n, index := base("x"), length("x"), zeroIndex()
	lowest := s.constantWord("minus_inf", math.Float32bits(float32(math.Inf(-1))))
	acc := s.vectors(s.perReduction(4))
	for _, a := range acc {
		VMOVUPS(lowest, a)
	}
	s.loop(n, len(acc), []reg.GPVirtual{index}, func(s step) {
		for i, a := range acc {
			v := s.vector()
			s.load(s.at(x, index, i), s.masks[i], v)
			s.keep(s.masks[i], lowest, v)
			VMAXPS(a, v, a)
		}
	})
	result := s.combine(acc, VMAXPS, permuteSingles)
	VZEROUPPER()
	VMOVSS(result, address(ReturnIndex(0)))
	RET()
}

// expSum emits the sum of e^(x-max), stored to dst on the way if asked.
func (s isa) expSum(name, signature string, stored bool) {
	s.function(name, signature)
	x, n, index := base("x"), length("x"), zeroIndex()
	dst := x
	if stored {
		dst = base("dst")
	}
	max := s.splat("max")
	exp, zero := s.exp(), s.constant("zero", 0)
	acc := s.zeros(s.perReduction(8))
	registers := s.perReduction(4)
	s.loop(n, registers, []reg.GPVirtual{index}, func(s step) {
		for i := range registers {
			v := s.vector()
			s.load(s.at(x, index, i), s.masks[i], v)
			VSUBPS(max, v, v)
			e := exp(v)
			if stored {
				s.store(e, s.masks[i], s.at(dst, index, i))
			}
			s.keep(s.masks[i], zero, e)
			s.addDoubles(e, acc[2*i:2*i+2])
		}
	})
	s.returnSum(acc)
}

// addDoubles adds the lower and the upper lanes of v, as float64, to acc.
func (s isa) addDoubles(v reg.VecVirtual, acc []reg.VecVirtual) {
	for i, d := range s.doubles(v) {
		VADDPD(d, acc[i], acc[i])
	}
}

// doubles converts the lower and the upper lanes of v to float64.
func (s isa) doubles(v reg.VecVirtual) [2]reg.VecVirtual {
	d := [2]reg.VecVirtual{s.vector(), s.vector()}
	VCVTPS2PD(s.lowerHalf(v), d[0])
	VCVTPS2PD(s.upperHalf(v), d[1])
	return d
}

// dot needs no rounding before the sum: products are exact in float64.
func (s isa) dot() {
	s.function("dot", "(x, y []float32) float64")
	x, y, n, index := base("x"), base("y"), length("x"), zeroIndex()
	acc := s.zeros(s.perReduction(8))
	registers := s.perReduction(4)
	s.loop(n, registers, []reg.GPVirtual{index}, func(s step) {
		for i := range registers {
			v, w := s.vector(), s.vector()
			s.load(s.at(x, index, i), s.masks[i], v)
			s.load(s.at(y, index, i), s.masks[i], w)
			vs, ws := s.doubles(v), s.doubles(w)
			VFMADD231PD(vs[0], ws[0], acc[2*i])
			VFMADD231PD(vs[1], ws[1], acc[2*i+1])
		}
	})
	s.returnSum(acc)
}

func (s isa) returnSum(acc []reg.VecVirtual) {
	result := s.combine(acc, VADDPD, permuteDoubles)
	VZEROUPPER()
	VMOVSD(result, address(ReturnIndex(0)))
	RET()
}

// combine folds registers, then the halves of the last one, until one lane is
// left: lane i always meets lane i + half. The lower operand is the second
// source.
func (s isa) combine(acc []reg.VecVirtual, fold func(ops ...Op), permute []func(x, to reg.Register)) reg.Register {
	for half := len(acc) / 2; half > 0; half /= 2 {
		for i := range half {
			fold(acc[i], acc[i+half], acc[i])
		}
	}
	last := acc[0]
	if s.wide() {
		fold(last.AsY(), s.upperHalf(last), last.AsY())
	}
	x := last.AsX()
	fold(x, avx2.upperHalf(last.AsY()), x)
	for _, p := range permute {
		upper := XMM()
		p(x, upper)
		fold(x, upper, x)
	}
	return x
}

// The permutations bring the upper half of the remaining lanes down.
var (
	permuteSingles = []func(x, to reg.Register){
		func(x, to reg.Register) { VPERMILPS(U8(0b1110), x, to) },
		func(x, to reg.Register) { VPERMILPS(U8(0b01), x, to) },
	}
	permuteDoubles = []func(x, to reg.Register){
		func(x, to reg.Register) { VPERMILPD(U8(0b1), x, to) },
	}
)
