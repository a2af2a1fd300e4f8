package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"coalmine/internal/kernels/constant"
)

// columns emits the kernels that process a few rows of a matrix together. The
// number of its columns is a multiple of reductionLanes.
func (s isa) columns() {
	for _, rows := range []int{4, 1} {
		s.expColumns(rows)
		s.dotRows(rows)
	}
}

// expColumns emits the exponentials of x + bias[row], and adds the sums over the rows to float64 sums:
// pairs of pairs in float32, so that only a quarter is widened.
func (s isa) expColumns(rows int) {
	s.function(fmt.Sprintf("expColumns%d", rows), "(x []float32, row, columns int, bias []float32, sums []float64)")
	at, bias := s.rowPointers(rows), base("bias")
	sums, n, index := base("sums"), Load(Param("columns"), GP64()).(reg.GPVirtual), zeroIndex()
	exp := s.boundedExp()
	Label("column")
	x, elements := s.group(rows), make([]Mem, rows)
	for i, v := range x {
		elements[i] = Mem{Base: at[i], Index: index, Scale: 1}
		VBROADCASTSS(Mem{Base: bias, Disp: 4 * i}, v)
		VADDPS(elements[i], v, v)
	}
	e := exp(x, elements)
	for i, v := range e {
		VMOVUPS(v, elements[i])
	}
	for half, v := range s.doubles(pairwiseSum(e)) {
		total := Mem{Base: sums, Index: index, Scale: 2, Disp: half * s.bytes()}
		VADDPD(total, v, v)
		VMOVUPD(v, total)
	}
	ADDQ(U32(s.bytes()), index)
	SUBQ(U8(s.lanes), n)
	JNZ(LabelRef("column"))
	finish()
}

// pairwiseSum adds up a power of two of registers.
func pairwiseSum(g group) reg.VecVirtual {
	for ; len(g) > 1; g = g[:len(g)/2] {
		for i := range len(g) / 2 {
			VADDPS(g[2*i+1], g[2*i], g[i])
		}
	}
	return g[0]
}

// boundedExp computes e^x for as many rows as fit the registers, so that the chains of instructions
// overlap. The polynomial is split into pairs of terms, a shorter chain than Horner's, and 2^n is stored
// in scratch, memory for every register, until it is needed.
func (s isa) boundedExp() func(x group, scratch []Mem) group {
	k := s.numbers()
	lowest, highest := s.constant("exp_normal_lowest", constant.ExpNormalLowest), s.constant("exp_normal_highest", constant.ExpNormalHighest)
	return func(x group, scratch []Mem) group {
		s.atMost(highest, x)
		s.atLeast(lowest, x)
		n := s.reduceExp(k, x)
		s.powerOfTwo(k, n)
		for i, v := range n {
			VMOVUPS(v, scratch[i])
		}
		square, q := s.product(x, x), s.like(x)
		s.set(s.inRegister(k.expm1[5]), q)
		each(VFMADD213PS, s.inRegister(k.expm1[4]), x, q)
		for i := 2; i >= 0; i -= 2 {
			even, odd := s.inRegister(k.expm1[i]), s.inRegister(k.expm1[i+1])
			for j, v := range q {
				pair := s.vector()
				VMOVUPS(odd, pair)
				VFMADD213PS(even, x[j], pair)
				VFMADD213PS(pair, square[j], v)
			}
		}
		each(VFMADD213PS, x, square, q)
		for i, v := range q {
			power := x[i]
			VMOVUPS(scratch[i], power)
			VFMADD213PS(power, power, v)
		}
		return q
	}
}

// dotRows emits the inner products of rows of x with y, which it adds to dst.
func (s isa) dotRows(rows int) {
	s.function(fmt.Sprintf("dotRows%d", rows), "(dst, x []float32, row, columns int, y []float32)")
	at := s.rowPointers(rows)
	dst, y, n, index := base("dst"), base("y"), Load(Param("columns"), GP64()).(reg.GPVirtual), zeroIndex()
	sums := make([]group, rows)
	for i := range sums {
		sums[i] = s.zeros(s.perReduction(4))
	}
	Label("column")
	for j := range s.perReduction(4) {
		v := s.vector()
		VMOVUPS(Mem{Base: y, Index: index, Scale: 1, Disp: j * s.bytes()}, v)
		for i, sum := range sums {
			VFMADD231PS(Mem{Base: at[i], Index: index, Scale: 1, Disp: j * s.bytes()}, v, sum[j])
		}
	}
	ADDQ(U32(4*reductionLanes), index)
	SUBQ(U8(reductionLanes), n)
	JNZ(LabelRef("column"))
	for i, sum := range sums {
		total := Mem{Base: dst, Disp: 4 * i}
		x := s.combine(sum, VADDPS, permuteSingles)
		old := XMM()
		VMOVSS(total, old)
		VADDPS(x, old, old)
		VMOVSS(old, total)
	}
	finish()
}

// rowPointers returns the addresses of rows of x.
func (s isa) rowPointers(rows int) []reg.GPVirtual {
	at := []reg.GPVirtual{base("x")}
	if rows == 1 {
		return at
	}
	row := stride("row")
	for i := 1; i < rows; i++ {
		next := GP64()
		LEAQ(Mem{Base: at[i-1], Index: row, Scale: 1}, next)
		at = append(at, next)
	}
	return at
}
