package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// group is one value of a vector function: registers that hold consecutive
// elements. Each instruction is emitted for all registers before the next
// begins, so that their chains of dependent instructions overlap.
type group []reg.VecVirtual

// unroll is the usual size of a group.
const unroll = 2

func (s isa) group(n int) group {
	g := make(group, n)
	for i := range g {
		g[i] = s.vector()
	}
	return g
}

// like returns a new group of the same size.
func (s isa) like(g group) group { return s.group(len(g)) }

func (s isa) zeros(n int) group {
	g := s.group(n)
	each(s.xor, g, g, g)
	return g
}

// each emits an instruction for every register of the groups among its
// operands; the other operands are the same for all.
func each(instruction func(ops ...Op), operands ...any) {
	for i := range groupSize(operands) {
		ops := make([]Op, len(operands))
		for j, o := range operands {
			if g, ok := o.(group); ok {
				ops[j] = g[i]
			} else {
				ops[j] = o.(Op)
			}
		}
		instruction(ops...)
	}
}

func groupSize(operands []any) int {
	for _, o := range operands {
		if g, ok := o.(group); ok {
			return len(g)
		}
	}
	panic("no group among the operands")
}

// set copies an operand to every register of a group.
func (s isa) set(from Op, to group) { each(VMOVUPS, from, to) }

// product returns x*y in a new group.
func (s isa) product(x, y group) group {
	p := s.like(x)
	each(VMULPS, y, x, p)
	return p
}
