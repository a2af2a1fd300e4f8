package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set: its register width, and the instructions that differ between the sets.
type isa struct {
	name     string
	lanes    int // float32 in a register
	vector   func() reg.VecVirtual
	tileRows int
	// tileVectors is the largest number of registers that span a row of a tile.
	tileVectors int

	and, or, xor func(ops ...Op)
}

var avx2 = isa{
	name: "AVX2", lanes: 8, vector: YMM, tileRows: 6, tileVectors: 2,
	and: pack3(VPAND), or: pack3(VPOR), xor: pack3(VPXOR),
}

var avx512 = isa{
	name: "AVX512", lanes: 16, vector: ZMM, tileRows: 8, tileVectors: 3,
	and: VPANDD, or: VPORD, xor: VPXORD,
}

func pack3(f func(a, b, c Op)) func(ops ...Op) { return func(ops ...Op) { f(ops[0], ops[1], ops[2]) } }

func (s isa) bytes() int { return 4 * s.lanes }

func (s isa) wide() bool { return s.lanes == 16 }

// function begins a kernel of the set.
func (s isa) function(name, signature string) { TEXT(name+s.name, NOSPLIT, "func"+signature) }

// masks selects the first n lanes of count registers, if n is less than all
// lanes: opmasks in AVX-512, vectors of all-ones lanes in AVX2.
func (s isa) masks(n reg.GPVirtual, count int) []reg.Register {
	masks := make([]reg.Register, count)
	if !s.wide() {
		table := GP64()
		LEAQ(constants.tailMask(), table)
		first := GP64()
		MOVQ(n, first)
		NEGQ(first)
		for i := range masks {
			v := YMM()
			VMOVUPS(Mem{Base: table, Index: first, Scale: 4, Disp: tailMaskOnes*4 + i*s.bytes()}, v)
			masks[i] = v
		}
		return masks
	}
	MOVQ(n, reg.RCX)
	bits := GP64()
	MOVQ(U32(1), bits)
	SHLQ(reg.CL, bits)
	DECQ(bits)
	for i := range masks {
		k := K()
		KMOVW(bits.As32(), k)
		if i < count-1 {
			SHRQ(U8(16), bits)
		}
		masks[i] = k
	}
	return masks
}

// load reads the lanes of a mask, nil for all lanes. The other lanes become 0,
// and their memory is not accessed.
func (s isa) load(from Mem, mask reg.Register, to reg.Register) {
	switch {
	case mask == nil:
		VMOVUPS(from, to)
	case s.wide():
		VMOVUPS_Z(from, mask, to)
	default:
		VMASKMOVPS(from, mask, to)
	}
}

// store writes the lanes of a mask, nil for all lanes.
func (s isa) store(from reg.Register, mask reg.Register, to Mem) {
	switch {
	case mask == nil:
		VMOVUPS(from, to)
	case s.wide():
		VMOVUPS(from, mask, to)
	default:
		VMASKMOVPS(from, mask, to)
	}
}

// keep replaces the lanes of x outside its mask by those of other.
func (s isa) keep(mask reg.Register, other Op, x reg.VecVirtual) {
	if mask != nil {
		s.choose([]reg.Register{mask}, group{x}, other, group{x})
	}
}

// choose sets dst to yes in the lanes of the masks and to no, a group or a constant, in the others.
func (s isa) choose(masks []reg.Register, yes group, no any, dst group) {
	if constant, ok := no.(Op); ok {
		no = s.inRegister(constant)
	}
	for i, mask := range masks {
		base, ok := no.(Op)
		if !ok {
			base = no.(group)[i]
		}
		if s.wide() {
			VBLENDMPS(yes[i], base, mask, dst[i])
		} else {
			VBLENDVPS(mask, yes[i], base, dst[i])
		}
	}
}

// negative returns masks of the lanes of x whose sign bit is set.
func (s isa) negative(x group) []reg.Register {
	masks := make([]reg.Register, len(x))
	for i, v := range x {
		masks[i] = v // VBLENDVPS uses only the sign bit
		if s.wide() {
			masks[i] = K()
			VPMOVD2M(v, masks[i])
		}
	}
	return masks
}

// inRegister returns op, loaded first if it is in memory.
func (s isa) inRegister(op Op) reg.Register {
	if r, ok := op.(reg.Register); ok {
		return r
	}
	v := s.vector()
	VMOVUPS(op, v)
	return v
}

// upperHalf returns the upper half of v's lanes in a register half as wide.
func (s isa) upperHalf(v reg.Register) reg.Register {
	if s.wide() {
		half := YMM()
		VEXTRACTF64X4(U8(1), v, half)
		return half
	}
	half := XMM()
	VEXTRACTF128(U8(1), v, half)
	return half
}

// lowerHalf returns the same register by its narrower name.
func (s isa) lowerHalf(v reg.VecVirtual) reg.Register {
	if s.wide() {
		return v.AsY()
	}
	return v.AsX()
}
