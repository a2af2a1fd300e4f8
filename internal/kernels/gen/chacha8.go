package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"coalmine/internal/kernels/constant"
)

// chaChaBlock holds a block of ChaCha8 in every lane: a register for each of its rows. Row 0 or 3
// is alternately stored in its final place in memory: AVX2 has registers for 15 rows and the
// temporaries of a rotation.
type chaChaBlock struct {
	isa
	rows       [16]reg.VecVirtual
	row0, row3 Mem
}

// chaCha8 emits the eight rounds, one register of lanes at a time.
func (s isa) chaCha8() {
	s.function("chaCha8", "(rows, state []uint32)")
	rows, state, left, stride, third := base("rows"), base("state"), length("rows"), GP64(), GP64()
	MOVQ(left, stride)
	SHRQ(U8(2), stride) // bytes of a row
	SHRQ(U8(4), left)   // lanes
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, third)
	ADDQ(rows, third)
	Label("lanes")
	b := chaChaBlock{isa: s, row0: Mem{Base: rows}, row3: Mem{Base: third}}
	b.begin(state, stride)
	pairs := GP64()
	MOVQ(U32(4), pairs)
	Label("rounds")
	b.twoRounds()
	DECQ(pairs)
	JNZ(LabelRef("rounds"))
	b.end(rows, state, stride)
	for _, at := range []reg.GPVirtual{rows, third, state} {
		ADDQ(U8(s.bytes()), at)
	}
	SUBQ(U8(s.lanes), left)
	JNZ(LabelRef("lanes"))
	finish()
}

// begin initializes the rows with constants, the state, and zeros. Row 3 is in memory.
func (b *chaChaBlock) begin(state, stride reg.GPVirtual) {
	for i := range b.rows {
		b.rows[i] = b.vector()
	}
	for i := range constant.ChaCha8 {
		row := len(constant.ChaCha8) - 1 - i // the last one first, because it goes to memory
		VBROADCASTSS(constants.word(fmt.Sprintf("chacha8_%d", row), constant.ChaCha8[row]), b.rows[row])
		if row == 3 {
			VMOVUPS(b.rows[3], b.row3)
		}
	}
	eachRow(state, stride, b.rows[4:13], func(at Mem, v reg.VecVirtual) { VMOVUPS(at, v) })
	for _, v := range b.rows[13:] {
		b.xor(v, v, v)
	}
}

// end adds the key to its rows, and stores all except row 3, which is in memory.
func (b *chaChaBlock) end(rows, state, stride reg.GPVirtual) {
	eachRow(state, stride, b.rows[4:12], func(at Mem, v reg.VecVirtual) { VPADDD(at, v, v) })
	eachRow(rows, stride, b.rows[:], func(at Mem, v reg.VecVirtual) {
		if v != b.rows[3] {
			VMOVUPS(v, at)
		}
	})
}

// eachRow iterates over rows in memory, starting at from.
func eachRow(from, stride reg.GPVirtual, rows []reg.VecVirtual, do func(at Mem, v reg.VecVirtual)) {
	at := GP64()
	MOVQ(from, at)
	for i, v := range rows {
		if i > 0 {
			ADDQ(stride, at)
		}
		do(Mem{Base: at}, v)
	}
}

// twoRounds mixes the columns of the block and then its diagonals. Row 3 is in memory before and after.
func (b *chaChaBlock) twoRounds() {
	b.quarter(0, 4, 8, 12)
	b.quarter(1, 5, 9, 13)
	b.quarter(2, 6, 10, 14)
	VMOVUPS(b.rows[0], b.row0)
	VMOVUPS(b.row3, b.rows[3])
	b.quarter(3, 7, 11, 15)
	b.quarter(3, 4, 9, 14)
	b.quarter(1, 6, 11, 12)
	b.quarter(2, 7, 8, 13)
	VMOVUPS(b.rows[3], b.row3)
	VMOVUPS(b.row0, b.rows[0])
	b.quarter(0, 5, 10, 15)
}

func (b *chaChaBlock) quarter(i, j, k, l int) {
	x, y, z, w := b.rows[i], b.rows[j], b.rows[k], b.rows[l]
	for _, by := range [][2]uint8{{16, 12}, {8, 7}} {
		VPADDD(y, x, x)
		b.xor(x, w, w)
		b.rotate(by[0], w)
		VPADDD(w, z, z)
		b.xor(z, y, y)
		b.rotate(by[1], y)
	}
}

// rotate rotates the bits of every lane to the left.
func (s isa) rotate(by uint8, v reg.VecVirtual) {
	if s.wide() {
		VPROLD(U8(by), v, v)
		return
	}
	low := s.vector()
	VPSRLD(U8(32-by), v, low)
	VPSLLD(U8(by), v, v)
	s.or(low, v, v)
}
