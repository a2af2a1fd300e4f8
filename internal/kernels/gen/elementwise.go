package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"coalmine/internal/kernels/constant"
)

func (s isa) elementwise() {
	for _, f := range []struct {
		name string
		emit func(s isa) func(x group) group
	}{
		{"exp", isa.exp},
		{"sigmoid", isa.sigmoid},
		{"tanh", isa.tanh},
		{"gelu", isa.gelu},
	} {
		s.function(f.name, "(dst, x []float32)")
		dst, x, n, index := base("dst"), base("x"), length("x"), zeroIndex()
		apply := f.emit(s)
		s.loop(n, unroll, indices{index}, func(s step) {
			s.write(apply(s.read(x, index)), dst, index)
		})
		finish()
	}
}

// expm1Reduced splits e^x into 2^n * (1 + q); it overwrites x. n still includes
// the constant that rounded it.
func (s isa) expm1Reduced(k numbers, x group) (q, n group) {
	n = s.reduceExp(k, x)
	q = s.like(x)
	last := len(k.expm1) - 1
	s.set(k.expm1[last], q)
	for i := last - 1; i >= 0; i-- {
		each(VFMADD213PS, k.expm1[i], x, q)
	}
	square := s.product(x, x)
	each(VFMADD213PS, x, square, q)
	return q, n
}

// reduceExp reduces x to its part beyond n*ln 2.
func (s isa) reduceExp(k numbers, x group) (n group) {
	n, whole := s.like(x), s.like(x)
	round := s.inRegister(k.round)
	s.set(round, n)
	each(VFMADD231PS, s.inRegister(k.log2E), x, n)
	each(VSUBPS, round, n, whole)
	each(VFMADD231PS, s.inRegister(k.negLn2High), whole, x)
	each(VFMADD231PS, s.inRegister(k.negLn2Low), whole, x)
	return n
}

// powerOfTwo converts integers n to 2^n. The shift drops a rounding constant.
func (s isa) powerOfTwo(k numbers, n group) {
	each(VPSLLD, U8(23), n, n)
	each(VPADDD, s.inRegister(k.one), n, n)
}

// expClamped computes e^x for clamped x, which it overwrites.
func (s isa) expClamped(k numbers, x group) group {
	q, n := s.expm1Reduced(k, x)
	return s.expScaled(k, q, n)
}

// expScaled combines the parts from expm1Reduced; it overwrites both.
func (s isa) expScaled(k numbers, q, n group) group {
	half := s.like(q)
	each(VPSUBD, k.round, n, n)
	each(VPSRAD, U8(1), n, half)
	each(VPSUBD, half, n, n)
	s.powerOfTwo(k, half)
	s.powerOfTwo(k, n)
	each(VADDPS, k.one, q, q)
	each(VMULPS, half, q, q)
	each(VMULPS, n, q, q)
	return q
}

// atLeast and atMost clamp x; a NaN stays, as the second source of the instruction.
func (s isa) atLeast(limit Op, x group) { each(VMAXPS, x, s.inRegister(limit), x) }
func (s isa) atMost(limit Op, x group)  { each(VMINPS, x, s.inRegister(limit), x) }

func (s isa) exp() func(x group) group {
	k := s.numbers()
	highest := s.constant("exp_highest", constant.ExpHighest)
	return func(x group) group {
		s.atMost(highest, x)
		s.atLeast(k.expLowest, x)
		return s.expClamped(k, x)
	}
}

func (s isa) sigmoid() func(x group) group {
	k := s.numbers()
	return func(x group) group {
		q, n := s.expm1Reduced(k, s.sigmoidExponent(k, x))
		return s.sigmoidOf(k, x, q, n)
	}
}

// sigmoidExponent returns -|x|, clamped.
func (s isa) sigmoidExponent(k numbers, x group) group {
	y := s.like(x)
	each(s.or, k.sign, x, y)
	s.atLeast(k.expLowest, y)
	return y
}

// sigmoidOf returns the sigmoid of x, given the exponential of its exponent in parts.
func (s isa) sigmoidOf(k numbers, x, q, n group) group {
	e := s.expScaled(k, q, n)
	numerator := s.like(x)
	s.choose(s.negative(x), e, k.one, numerator)
	each(VADDPS, k.one, e, e)
	each(VDIVPS, e, numerator, numerator)
	return numerator
}

func (s isa) tanh() func(x group) group {
	k := s.tanhNumbers()
	return func(x group) group {
		u, power := s.expm1Reduced(k, s.tanhExponent(k, x))
		return s.tanhOf(k, x, u, power)
	}
}

// tanhExponent returns -2|x|, clamped.
func (s isa) tanhExponent(k numbers, x group) group {
	y := s.like(x)
	each(s.or, k.sign, x, y)
	each(VADDPS, y, y, y)
	s.atLeast(k.tanhLowest, y)
	return y
}

// tanhOf returns the tanh of x, given the exponential of its exponent in parts.
func (s isa) tanhOf(k numbers, x, u, power group) group {
	s.powerOfTwo(k, power)
	less1 := s.like(x)
	each(VSUBPS, s.inRegister(k.one), power, less1)
	each(VFMADD213PS, less1, power, u) // e^y - 1
	denominator, sign := s.like(x), s.like(x)
	each(VADDPS, k.two, u, denominator)
	each(s.and, k.sign, x, sign)
	each(s.and, k.magnitude, u, u)
	each(s.or, sign, u, u)
	each(VDIVPS, denominator, u, u)
	return u
}

// update is a kernel of a few plain operations on each element. Its vectors have the length of x.
type update struct {
	name, signature string
	scalar          string // an argument; "" without one
	inputs, outputs []string
	// compute may overwrite its arguments.
	compute func(s isa, scalar Op, in []group) []group
}

var updates = []update{
	{"axpy", "(alpha float32, x, y []float32)", "alpha", []string{"x", "y"}, []string{"y"},
		func(_ isa, alpha Op, in []group) []group {
			x, y := in[0], in[1]
			each(VFMADD231PS, x, alpha, y)
			return []group{y}
		}},
	{"scale", "(alpha float32, x []float32)", "alpha", []string{"x"}, []string{"x"},
		func(_ isa, alpha Op, in []group) []group {
			each(VMULPS, alpha, in[0], in[0])
			return in
		}},
	{"add", "(dst, x []float32)", "", []string{"dst", "x"}, []string{"dst"},
		func(_ isa, _ Op, in []group) []group {
			each(VADDPS, in[1], in[0], in[0])
			return in[:1]
		}},
	{"mul", "(dst, x, y []float32)", "", []string{"x", "y"}, []string{"dst"},
		func(s isa, _ Op, in []group) []group {
			return []group{s.product(in[0], in[1])}
		}},
	{"blend", "(dst, w, x, y []float32)", "", []string{"w", "x", "y"}, []string{"dst"},
		func(_ isa, _ Op, in []group) []group {
			w, x, y := in[0], in[1], in[2]
			each(VSUBPS, y, x, x)
			each(VFMADD231PS, x, w, y)
			return []group{y}
		}},
	{"gruCandidate", "(dst, r, x []float32)", "", []string{"dst", "r", "x"}, []string{"dst"},
		func(s isa, _ Op, in []group) []group {
			each(VADDPS, s.product(in[1], in[2]), in[0], in[0])
			return in[:1]
		}},
	{"gruCell", "(dst, u, x, z []float32)", "", []string{"u", "x", "z"}, []string{"dst"},
		func(_ isa, _ Op, in []group) []group {
			u, x, z := in[0], in[1], in[2]
			each(VSUBPS, z, x, x)
			each(VMULPS, u, x, x)
			each(VADDPS, x, z, z)
			return []group{z}
		}},
	{"rectify", "(alpha float32, x, y []float32)", "alpha", []string{"x", "y"}, []string{"x"}, rectified},
	{"mulAdd", "(dst, v, w, x, y []float32)", "", []string{"v", "w", "x", "y"}, []string{"dst"},
		func(s isa, _ Op, in []group) []group {
			v, w, xy := in[0], in[1], s.product(in[2], in[3])
			each(VFMADD231PS, w, v, xy)
			return []group{xy}
		}},
}

// updates emits the kernels of the table.
func (s isa) updates() {
	for _, u := range updates {
		s.function(u.name, u.signature)
		n, index := length("x"), zeroIndex()
		var scalar Op
		if u.scalar != "" {
			scalar = s.splat(u.scalar)
		}
		s.loop(n, unroll, indices{index}, func(s step) {
			in := make([]group, len(u.inputs))
			for i, name := range u.inputs {
				in[i] = s.read(base(name), index)
			}
			for i, out := range u.compute(s.isa, scalar, in) {
				s.write(out, base(u.outputs[i]), index)
			}
		})
		finish()
	}
}

// roundedColumns is the width of a panel of rounded columns.
const roundedColumns = 16

// roundedTile emits the product of a few rows with panels of columns, both pairs
// of 16-bit integers, in 32-bit integers; the sums are scaled as float32.
func (s isa) roundedTile() {
	s.function("roundedTile", "(panels, depth int, a []float32, b []float32, c []float32, cRow int, scales []float32)")
	vectors := roundedColumns / s.lanes
	rows := 12 / vectors
	panels, depth := Load(Param("panels"), GP64()).(reg.GPVirtual), GP64()
	a, b, c, cRow := base("a"), base("b"), base("c"), stride("cRow")
	aRow := stride("depth")
	aRow3 := tripled(aRow)
	var at [3]reg.GPVirtual // of four rows each
	for i := range at {
		at[i] = GP64()
	}
	Label("panel")
	sums := make([]group, rows)
	for i := range sums {
		sums[i] = s.zeros(vectors)
	}
	MOVQ(a, at[0])
	for i := 1; i < (rows+3)/4; i++ {
		LEAQ(Mem{Base: at[i-1], Index: aRow, Scale: 4}, at[i])
	}
	Load(Param("depth"), depth)
	columns, product := s.group(vectors), s.vector()
	alignLoop()
	Label("product")
	for j, v := range columns {
		VMOVUPS(Mem{Base: b, Disp: j * s.bytes()}, v)
	}
	for i, row := range sums {
		x := s.vector()
		VBROADCASTSS(fourRows(at[i/4], at[i/4], aRow, aRow3, i%4), x)
		for j, sum := range row {
			VPMADDWD(columns[j], x, product)
			VPADDD(product, sum, sum)
		}
	}
	for i := range (rows + 3) / 4 {
		ADDQ(U8(4), at[i])
	}
	ADDQ(U8(4*roundedColumns), b)
	DECQ(depth)
	JNZ(LabelRef("product"))
	s.writeRounded(c, cRow, sums)
	ADDQ(U8(4*roundedColumns), c)
	DECQ(panels)
	JNZ(LabelRef("panel"))
	finish()
}

// writeRounded stores the sums, each row times its scale.
func (s isa) writeRounded(c, cRow reg.GPVirtual, sums []group) {
	scales, to := base("scales"), GP64()
	MOVQ(c, to)
	for i, row := range sums {
		scale := s.vector()
		VBROADCASTSS(Mem{Base: scales, Disp: 4 * i}, scale)
		each(VCVTDQ2PS, row, row)
		each(VMULPS, scale, row, row)
		for j, sum := range row {
			VMOVUPS(sum, Mem{Base: to, Disp: j * s.bytes()})
		}
		ADDQ(cRow, to)
	}
}
