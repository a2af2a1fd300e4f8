package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const tileSignature = "(count, depth int, a []float32, aRow, aStep int, b []float32, bRow int, " +
	"c []float32, cRow, columns int, alpha float32, accumulate bool, bias []float32)"

// tileRegisters are the addresses and strides, in bytes, of a tile kernel.
type tileRegisters struct {
	count, depth                reg.GPVirtual
	a, aNext, aRow, aRow3, step reg.GPVirtual
	aStart, b, bRow, c, cRow    reg.GPVirtual
	ahead                       reg.GPVirtual // in the next tile of A
}

// tiles emits the kernels for tiles of all supported numbers of rows and registers.
func (s isa) tiles() {
	for vectors := 1; vectors <= s.tileVectors; vectors++ {
		narrow := s
		narrow.tileVectors = vectors
		for rows := 1; rows <= s.tileRows; rows++ {
			narrow.tile(rows)
		}
	}
}

// tile emits the kernel for tiles of the given rows: C stays in registers while
// one column of A and one row of B are read at a time.
func (s isa) tile(rows int) {
	s.function(fmt.Sprintf("tile%dx%d", rows, s.tileVectors), tileSignature)
	r := loadTileRegisters()
	Label("tile")
	s.prefetch(r, rows)
	sums := s.accumulateTile(r, rows)
	s.writeTile(r, sums)
	next := GP64()
	IMUL3Q(U32(rows), r.aRow, next)
	ADDQ(next, r.aStart)
	DECQ(r.count)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

func loadTileRegisters() tileRegisters {
	r := tileRegisters{
		count: Load(Param("count"), GP64()).(reg.GPVirtual),
		depth: GP64(), ahead: GP64(), a: GP64(), aNext: GP64(), b: GP64(),
		aStart: base("a"), c: base("c"),
		aRow: stride("aRow"), step: stride("aStep"), bRow: stride("bRow"), cRow: stride("cRow"),
	}
	r.aRow3 = tripled(r.aRow)
	return r
}

// prefetch fetches the rows of C while the products are computed: of every row
// the last line and, if it has more than one, the first. The previous tile has
// fetched the first line of a row that spans two lines.
func (s isa) prefetch(r tileRegisters, rows int) {
	row, bytes := GP64(), s.tileVectors*s.bytes()
	MOVQ(r.c, row)
	for i := range rows {
		if bytes > line {
			PREFETCHT0(Mem{Base: row})
		}
		PREFETCHT0(Mem{Base: row, Disp: bytes - 4})
		if i < rows-1 {
			ADDQ(r.cRow, row)
		}
	}
}

// line is the size of a cache line in bytes.
const line = 64

// deep is the number of values of k per iteration of the inner loop.
const deep = 4

// accumulateTile emits the loop over k and returns the sums, row by row. It also prefetches the next
// tile of A, whose rows are often too short for the processor to detect the sequence: two lines for
// every four k, enough for a tile of eight rows.
func (s isa) accumulateTile(r tileRegisters, rows int) []group {
	sums := make([]group, rows)
	for i := range sums {
		sums[i] = s.zeros(s.tileVectors)
	}
	MOVQ(r.aStart, r.a)
	Load(Param("depth"), r.depth)
	r.lookAhead(rows)
	LEAQ(Mem{Base: r.a, Index: r.aRow, Scale: 4}, r.aNext)
	Load(Param("b").Base(), r.b)
	SUBQ(U8(deep), r.depth)
	JLT(LabelRef("few"))
	alignLoop()
	Label("products")
	for p := range deep {
		s.multiplyAdd(r, sums)
		if p%2 == 0 {
			PREFETCHT0(Mem{Base: r.ahead, Disp: p / 2 * line})
		}
	}
	ADDQ(U32(deep/2*line), r.ahead)
	SUBQ(U8(deep), r.depth)
	JGE(LabelRef("products"))
	Label("few")
	ADDQ(U8(deep), r.depth)
	JZ(LabelRef("summed"))
	Label("product")
	s.multiplyAdd(r, sums)
	DECQ(r.depth)
	JNZ(LabelRef("product"))
	Label("summed")
	return sums
}

// multiplyAdd adds the products of a column of A and a row of B to the sums, and advances to the next.
func (s isa) multiplyAdd(r tileRegisters, sums []group) {
	b := s.group(s.tileVectors)
	for j, v := range b {
		VMOVUPS(Mem{Base: r.b, Disp: j * s.bytes()}, v)
	}
	for i, row := range sums {
		x := s.vector()
		VBROADCASTSS(fourRows(r.a, r.aNext, r.aRow, r.aRow3, i), x)
		for j, sum := range row {
			VFMADD231PS(b[j], x, sum)
		}
	}
	ADDQ(r.step, r.a)
	if len(sums) > 4 {
		ADDQ(r.step, r.aNext)
	}
	ADDQ(r.bRow, r.b)
}

// lookAhead points r.ahead to the next tile of A if its rows are close enough to
// be prefetched as one stream, and otherwise to this one, which is harmless.
func (r tileRegisters) lookAhead(rows int) {
	IMUL3Q(U32(rows), r.aRow, r.ahead)
	dense := GP64()
	LEAQ(Mem{Base: r.depth, Disp: rowSlack}, dense)
	SHLQ(U8(2), dense)
	CMPQ(dense, r.aRow)
	JGE(LabelRef("dense"))
	XORQ(r.ahead, r.ahead)
	Label("dense")
	ADDQ(r.a, r.ahead)
}

// rowSlack is the largest number of elements between two close rows.
const rowSlack = 32

// addend is the addend of a tile's products: rows of memory, and the stride between them.
type addend struct{ row, stride reg.GPVirtual }

// addend returns the bias, whose single row serves all rows, or the old C if it
// is accumulated. The row is 0 if there is neither.
func (r tileRegisters) addend() addend {
	from := addend{Load(Param("bias").Base(), GP64()).(reg.GPVirtual), GP64()}
	XORQ(from.stride, from.stride)
	TESTQ(from.row, from.row)
	JNZ(LabelRef("addend"))
	accumulate := Load(Param("accumulate"), GP8())
	TESTB(accumulate, accumulate)
	JZ(LabelRef("addend"))
	MOVQ(r.c, from.row)
	MOVQ(r.cRow, from.stride)
	Label("addend")
	return from
}

// writeTile stores alpha*sums, plus the addend if there is one, and moves r.c below the tile.
func (s isa) writeTile(r tileRegisters, sums []group) {
	alpha := s.splat("alpha")
	from := r.addend()
	columns := Load(Param("columns"), GP64()).(reg.GPVirtual)
	whole := make([]reg.Register, s.tileVectors)

	CMPQ(columns, U8(s.lanes*s.tileVectors))
	JLT(LabelRef("edge"))
	TESTQ(from.row, from.row)
	JZ(LabelRef("store"))
	s.addRows(r, from, alpha, sums, whole)
	JMP(LabelRef("written"))
	Label("store")
	s.storeRows(r, alpha, sums, whole)
	JMP(LabelRef("written"))

	Label("edge")
	part := s.masks(columns, s.tileVectors)
	TESTQ(from.row, from.row)
	JZ(LabelRef("store_edge"))
	s.addRows(r, from, alpha, sums, part)
	JMP(LabelRef("written"))
	Label("store_edge")
	s.storeRows(r, alpha, sums, part)
	Label("written")
}

func (s isa) addRows(r tileRegisters, from addend, alpha reg.VecVirtual, sums []group, masks []reg.Register) {
	for _, row := range sums {
		for j, sum := range row {
			c := s.vector()
			s.load(Mem{Base: from.row, Disp: j * s.bytes()}, masks[j], c)
			VFMADD231PS(sum, alpha, c)
			s.store(c, masks[j], Mem{Base: r.c, Disp: j * s.bytes()})
		}
		ADDQ(from.stride, from.row)
		ADDQ(r.cRow, r.c)
	}
}

func (s isa) storeRows(r tileRegisters, alpha reg.VecVirtual, sums []group, masks []reg.Register) {
	for _, row := range sums {
		for j, sum := range row {
			VMULPS(alpha, sum, sum)
			s.store(sum, masks[j], Mem{Base: r.c, Disp: j * s.bytes()})
		}
		ADDQ(r.cRow, r.c)
	}
}

// alignLoop starts the next instruction at a fetch boundary.
func alignLoop() { Instruction(&ir.Instruction{Opcode: "PCALIGN", Operands: []Op{Imm(32)}}) }

// peak emits a loop of independent multiply-adds in registers, which returns its number of operations.
func (s isa) peak() {
	const chains = 12
	s.function("peak", "(rounds int) int")
	rounds := Load(Param("rounds"), GP64()).(reg.GPVirtual)
	operations := GP64()
	IMUL3Q(U32(2*chains*s.lanes), rounds, operations)
	sums := s.zeros(chains)
	half, one := s.inRegister(s.constant("half", 0.5)), s.inRegister(s.constant("one", 1))
	alignLoop()
	Label("round")
	for _, sum := range sums {
		VFMADD213PS(one, half, sum)
	}
	DECQ(rounds)
	JNZ(LabelRef("round"))
	VZEROUPPER()
	Store(operations, ReturnIndex(0))
	RET()
}

// transpose8 emits the transpose of adjacent 8x8 blocks, which both sets use:
// it moves data and computes nothing.
func transpose8() {
	avx2.function("transpose8", "(dst []float32, dstRow int, src []float32, srcRow, count int)")
	src, dst := base("src"), base("dst")
	srcRow, dstRow := stride("srcRow"), stride("dstRow")
	count := Load(Param("count"), GP64()).(reg.GPVirtual)
	srcRow3, half, dstRow3 := tripled(srcRow), GP64(), tripled(dstRow)
	Label("block")
	LEAQ(Mem{Base: src, Index: srcRow, Scale: 4}, half)
	rows := avx2.group(8)
	for i, v := range rows {
		VMOVUPS(fourRows(src, half, srcRow, srcRow3, i), v)
	}
	LEAQ(Mem{Base: dst, Index: dstRow, Scale: 4}, half)
	for i, v := range joinHalves(interleaveQuads(interleavePairs(rows))) {
		VMOVUPS(v, fourRows(dst, half, dstRow, dstRow3, i))
	}
	ADDQ(U8(4*8), src)
	LEAQ(Mem{Base: dst, Index: dstRow, Scale: 8}, dst)
	DECQ(count)
	JNZ(LabelRef("block"))
	finish()
}

// interleavePairs merges rows 2i and 2i+1 element by element.
func interleavePairs(rows group) group {
	out := avx2.group(8)
	for i := 0; i < 8; i += 2 {
		VUNPCKLPS(rows[i+1], rows[i], out[i])
		VUNPCKHPS(rows[i+1], rows[i], out[i+1])
	}
	return out
}

// interleaveQuads merges pairs of four rows each: out[4q+r] holds, in each
// half, column r (lower) or 4+r (upper) of rows 4q to 4q+3.
func interleaveQuads(pairs group) group {
	out := avx2.group(8)
	for q := 0; q < 8; q += 4 {
		VUNPCKLPD(pairs[q+2], pairs[q], out[q])
		VUNPCKHPD(pairs[q+2], pairs[q], out[q+1])
		VUNPCKLPD(pairs[q+3], pairs[q+1], out[q+2])
		VUNPCKHPD(pairs[q+3], pairs[q+1], out[q+3])
	}
	return out
}

// joinHalves joins the columns of the upper four rows with those of the lower four.
func joinHalves(quads group) group {
	out := avx2.group(8)
	for r := range 4 {
		VPERM2F128(U8(0x20), quads[4+r], quads[r], out[r])
		VPERM2F128(U8(0x31), quads[4+r], quads[r], out[4+r])
	}
	return out
}
