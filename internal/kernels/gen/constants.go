package main

import (
	"fmt"
	"math"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"coalmine/internal/kernels/constant"
)

// pool collects the constants of kernels. Each fills 32 bytes, so that it can
// be a memory operand of an AVX2 instruction.
type pool struct {
	bits    map[string]uint32
	symbols []string
}

var constants = &pool{bits: map[string]uint32{}}

const (
	constantBytes = 32
	tailMaskName  = "tail_mask"
	tailMaskOnes  = 16
)

// float returns a constant named after its use.
func (p *pool) float(name string, value float32) Mem { return p.word(name, math.Float32bits(value)) }

func (p *pool) word(name string, bits uint32) Mem {
	if old, ok := p.bits[name]; ok && old != bits {
		panic("constant " + name + " has two values")
	}
	if _, ok := p.bits[name]; !ok {
		p.bits[name] = bits
		p.symbols = append(p.symbols, name)
	}
	return NewDataAddr(NewStaticSymbol(name), 0)
}

// tailMask returns the table from which AVX2 masks are cut: ones, then zeros.
func (p *pool) tailMask() Mem { return NewDataAddr(NewStaticSymbol(tailMaskName), 0) }

func (p *pool) define() {
	slices.Sort(p.symbols)
	for _, name := range p.symbols {
		GLOBL(name, RODATA|NOPTR)
		for i := 0; i < constantBytes; i += 8 {
			DATA(i, U64(uint64(p.bits[name])<<32|uint64(p.bits[name])))
		}
	}
	GLOBL(tailMaskName, RODATA|NOPTR)
	for i := range tailMaskOnes {
		DATA(8*i, U64([]uint64{math.MaxUint64, 0}[i*2/tailMaskOnes]))
	}
}

// numbers holds the constants of the vector functions as operands: in registers
// in AVX-512, which has plenty, in memory in AVX2.
type numbers struct {
	one, sign, log2E, round, negLn2High, negLn2Low, expLowest Op
	expm1                                                     [len(constant.Expm1)]Op

	two, magnitude, tanhLowest Op // only for tanh
}

// numbers loads the constants of the exponential and its relatives.
func (s isa) numbers() numbers {
	n := numbers{
		one:        s.constant("one", 1),
		sign:       s.constantWord("sign_bit", constant.SignBit),
		log2E:      s.constant("log2_e", constant.Log2E),
		round:      s.constant("round_to_integer", constant.RoundToInteger),
		negLn2High: s.constant("minus_ln2_high", -constant.Ln2High),
		negLn2Low:  s.constant("minus_ln2_low", -constant.Ln2Low),
		expLowest:  s.constant("exp_lowest", constant.ExpLowest),
	}
	for i, c := range constant.Expm1 {
		n.expm1[i] = s.constant(fmt.Sprintf("expm1_%d", i), c)
	}
	return n
}

// tanhNumbers also loads the constants of tanh.
func (s isa) tanhNumbers() numbers {
	n := s.numbers()
	n.two = s.constant("two", 2)
	n.magnitude = s.constantWord("magnitude_bits", math.MaxInt32)
	n.tanhLowest = s.constant("tanh_lowest", constant.TanhLowest)
	return n
}

func (s isa) constant(name string, value float32) Op { return s.operand(constants.float(name, value)) }

func (s isa) constantWord(name string, bits uint32) Op { return s.operand(constants.word(name, bits)) }

func (s isa) operand(m Mem) Op {
	if !s.wide() {
		return m
	}
	v := ZMM()
	VBROADCASTSS(m, v)
	return v
}

// splat returns a register with a float32 argument in every lane.
func (s isa) splat(name string) reg.VecVirtual {
	v := s.vector()
	VBROADCASTSS(address(Param(name)), v)
	return v
}

// address returns the location of an argument or a result. The generator
// chooses the names, so a failure is a mistake in it.
func address(c gotypes.Component) Mem {
	b, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}
