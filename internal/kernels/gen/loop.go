package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// indices are offsets in bytes that advance together.
type indices []reg.GPVirtual

// step is one pass of a loop over vectors: over whole registers, or over the
// first lanes of them at the end.
type step struct {
	isa
	masks []reg.Register // nil elements select all lanes
}

// loop runs body over n elements, count registers at a time, and then once more
// over the remainder, masked.
func (s isa) loop(n reg.GPVirtual, count int, at indices, body func(step)) {
	width := count * s.lanes
	SUBQ(U8(width), n)
	JLT(LabelRef("rest"))
	alignLoop()
	Label("whole")
	body(step{s, make([]reg.Register, count)})
	for _, index := range at {
		ADDQ(U32(count*s.bytes()), index)
	}
	SUBQ(U8(width), n)
	JGE(LabelRef("whole"))
	Label("rest")
	ADDQ(U8(width), n)
	JZ(LabelRef("done"))
	body(step{s, s.masks(n, count)})
	Label("done")
}

// read loads a group from base + index; lanes outside the masks are 0.
func (s step) read(base, index reg.Register) group {
	g := s.group(len(s.masks))
	for i, v := range g {
		s.load(s.at(base, index, i), s.masks[i], v)
	}
	return g
}

func (s step) write(g group, base, index reg.Register) {
	for i, v := range g {
		s.store(v, s.masks[i], s.at(base, index, i))
	}
}

// at addresses register i of a group.
func (s step) at(base, index reg.Register, i int) Mem {
	return Mem{Base: base, Index: index, Scale: 1, Disp: i * s.bytes()}
}

// finish ends a kernel that has no result.
func finish() {
	VZEROUPPER()
	RET()
}

func zeroIndex() reg.GPVirtual {
	index := GP64()
	XORQ(index, index)
	return index
}

// stride loads a number of elements, converted to bytes.
func stride(name string) reg.GPVirtual {
	v := Load(Param(name), GP64()).(reg.GPVirtual)
	SHLQ(U8(2), v)
	return v
}

func tripled(v reg.GPVirtual) reg.GPVirtual {
	triple := GP64()
	LEAQ(Mem{Base: v, Index: v, Scale: 2}, triple)
	return triple
}

// fourRows addresses row i of eight: the first four from base, the others from
// half, which is four rows further.
func fourRows(base, half, stride, stride3 reg.GPVirtual, i int) Mem {
	if i >= 4 {
		base = half
	}
	switch i % 4 {
	case 1:
		return Mem{Base: base, Index: stride, Scale: 1}
	case 2:
		return Mem{Base: base, Index: stride, Scale: 2}
	case 3:
		return Mem{Base: base, Index: stride3, Scale: 1}
	}
	return Mem{Base: base}
}

func base(name string) reg.GPVirtual { return Load(Param(name).Base(), GP64()).(reg.GPVirtual) }

func length(name string) reg.GPVirtual { return Load(Param(name).Len(), GP64()).(reg.GPVirtual) }
