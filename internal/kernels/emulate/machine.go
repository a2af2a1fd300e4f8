// Package emulate executes the assembly of package kernels on any machine, so
// that its AVX-512 kernels are tested on processors that lack AVX-512.
//
// Parse reads Go assembly text; Call lays out the arguments of a function
// according to the assembler's calling convention, and interprets the function.
// It supports only the instructions that the kernels use, each implemented from
// its page in the Intel 64 and IA-32 Architectures Software Developer's Manual,
// volume 2. Only the passed slices and the constants of the program are memory:
// any other access is an error, even if the processor would not detect it.
//
// Tests verify the emulator by running the AVX2 kernels both ways.
package emulate

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// machine is the state of the processor during one call.
type machine struct {
	memory  memoryMap
	symbols map[string]*constants
	frame   frame
	general [16]uint64
	vector  [32]register
	opmask  [8]uint16
	flags   flags
	next    int // index of the next instruction
	done    bool
}

// register is a 512-bit vector register, as 32-bit lanes.
type register [16]uint32

// flags are the conditions of branches. less is meaningful only after a comparison or a subtraction.
type flags struct{ zero, less, compared bool }

// Call runs a function with arguments of type int, float32, bool, []float32, []uint32 and []float64. Its
// result, if any, is stored in result, a *float32, *float64 or *int; otherwise result is nil.
func (p *Program) Call(name string, result any, args ...any) error {
	f, ok := p.functions[name]
	if !ok {
		return fmt.Errorf("no function %s", name)
	}
	frame, err := layOut(args)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	offset := len(frame.bytes)
	frame.put(8, 0)
	m := &machine{memory: memoryMap{slices: frame.slices, constants: p.constants}, symbols: p.symbols, frame: frame}
	if err := m.run(f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	bits, err := m.frame.get(offset, 8)
	if err != nil {
		return err
	}
	switch r := result.(type) {
	case *float32:
		*r = math.Float32frombits(uint32(bits))
	case *float64:
		*r = math.Float64frombits(bits)
	case *int:
		*r = int(bits)
	}
	return nil
}

// maxSteps limits the steps of a call, to end infinite loops.
const maxSteps = 10_000_000

func (m *machine) run(f *function) error {
	for range maxSteps {
		if m.next >= len(f.code) {
			return fmt.Errorf("ran past the end")
		}
		i := &f.code[m.next]
		m.next++
		if err := m.execute(f, i); err != nil {
			return fmt.Errorf("line %d, %s: %w", i.line, i.op, err)
		}
		if m.done {
			return nil
		}
	}
	return fmt.Errorf("no end after %d instructions", maxSteps)
}

func (m *machine) execute(f *function, i *instruction) error {
	if handler, ok := vectorHandlers[i.op]; ok {
		return handler(m, i.args)
	}
	if handler, ok := integerHandlers[i.op]; ok {
		return handler(m, i.args)
	}
	taken, isBranch, err := m.branch(i.op)
	if err != nil {
		return err
	}
	switch {
	case isBranch && taken:
		target, ok := f.labels[i.args[0].symbol]
		if !ok {
			return fmt.Errorf("no label %s", i.args[0].symbol)
		}
		m.next = target
		return nil
	case isBranch, i.op == "PREFETCHT0", i.op == "PCALIGN":
		return nil
	case i.op == "RET":
		m.done = true
		return nil
	}
	return fmt.Errorf("unknown instruction")
}

func (m *machine) branch(op string) (taken, isBranch bool, err error) {
	switch op {
	case "JMP":
		return true, true, nil
	case "JZ":
		return m.flags.zero, true, nil
	case "JNZ":
		return !m.flags.zero, true, nil
	case "JLT", "JGE":
		if !m.flags.compared {
			return false, true, fmt.Errorf("branch without a comparison")
		}
		return m.flags.less == (op == "JLT"), true, nil
	}
	return false, false, nil
}

func (m *machine) address(o operand) (uint64, error) {
	if o.symbol != "" {
		c, ok := m.symbols[o.symbol]
		if !ok {
			return 0, fmt.Errorf("no symbol %s", o.symbol)
		}
		return c.address + uint64(o.displacement), nil
	}
	address := uint64(o.displacement) + m.general[o.index]
	if o.scaled >= 0 {
		address += m.general[o.scaled] * uint64(o.scale)
	}
	return address, nil
}

// lanes reads the first n lanes of a register or of memory.
func (m *machine) lanes(o operand, n int) (r register, err error) {
	if o.kind == vector {
		copy(r[:n], m.vector[o.index][:])
		return r, nil
	}
	return m.lanesWhere(o, n, allLanes)
}

func allLanes(int) bool { return true }

// lanesWhere reads the wanted lanes, sets the others to 0, and does not access their memory.
func (m *machine) lanesWhere(o operand, n int, wanted func(lane int) bool) (r register, err error) {
	for i := range n {
		if wanted(i) {
			if r[i], err = m.lane(o, i); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

func (m *machine) lane(o operand, i int) (uint32, error) {
	switch o.kind {
	case vector:
		return m.vector[o.index][i], nil
	case parameter:
		word, err := m.frame.get(o.displacement+4*i, 4)
		return uint32(word), err
	case memory:
		address, err := m.address(o)
		if err != nil {
			return 0, err
		}
		return m.memory.load(address + uint64(4*i))
	case immediate, general, opmask, label:
	}
	return 0, fmt.Errorf("operand is no vector")
}

// set writes lanes to a register, clearing its other lanes, or to memory.
func (m *machine) set(o operand, n int, r register) error { return m.setWhere(o, n, r, allLanes) }

// setWhere writes only some lanes to memory.
func (m *machine) setWhere(o operand, n int, r register, wanted func(lane int) bool) error {
	if o.kind == vector {
		m.vector[o.index] = register{}
		copy(m.vector[o.index][:n], r[:n])
		return nil
	}
	for i := range n {
		if !wanted(i) {
			continue
		}
		if err := m.setLane(o, i, r[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) setLane(o operand, i int, bits uint32) error {
	if o.kind == parameter {
		return m.frame.set(o.displacement+4*i, 4, uint64(bits))
	}
	address, err := m.address(o)
	if err != nil {
		return err
	}
	return m.memory.store(address+uint64(4*i), bits)
}

// constantsBase is the address of the first constant, outside any slice.
const (
	constantsBase = 1 << 62
	constantsRoom = 1 << 20
)

// constants is the data of one symbol.
type constants struct {
	address uint64
	words   []uint32
}

// memoryMap is the memory that a call may access: the slices of its arguments and the constants. Slices
// keep their addresses, so that overlapping ones overlap.
type memoryMap struct {
	slices    [][]float32
	constants []*constants // in order of address
}

func addressOf(s []float32) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s)))) }

// word returns the 4 bytes at an address, in a slice or in a constant.
func (m *memoryMap) word(address uint64) (*float32, *uint32, error) {
	if address >= constantsBase {
		if n := (address - constantsBase) / constantsRoom; n < uint64(len(m.constants)) {
			c := m.constants[n]
			if i := (address - c.address) / 4; i < uint64(len(c.words)) {
				return nil, &c.words[i], nil
			}
		}
	}
	for _, s := range m.slices {
		if i := (address - addressOf(s)) / 4; address >= addressOf(s) && i < uint64(len(s)) {
			return &s[i], nil, nil
		}
	}
	return nil, nil, fmt.Errorf("access outside of the arguments at %#x", address)
}

func (m *memoryMap) load(address uint64) (uint32, error) {
	f, w, err := m.word(address)
	switch {
	case err != nil:
		return 0, err
	case f != nil:
		return math.Float32bits(*f), nil
	}
	return *w, nil
}

func (m *memoryMap) store(address uint64, bits uint32) error {
	f, _, err := m.word(address)
	if err == nil && f == nil {
		err = fmt.Errorf("write to a constant")
	}
	if err != nil {
		return err
	}
	*f = math.Float32frombits(bits)
	return nil
}

// frame is the arguments and results of a call.
type frame struct {
	bytes  []byte
	slices [][]float32
}

// layOut places arguments as the Go assembler expects: each aligned to its
// size, and the results after them, aligned to a word.
func layOut(args []any) (frame, error) {
	var f frame
	for _, arg := range args {
		switch v := arg.(type) {
		case int:
			f.put(8, uint64(v))
		case float32:
			f.put(4, uint64(math.Float32bits(v)))
		case float64:
			f.put(8, math.Float64bits(v))
		case bool:
			f.put(1, map[bool]uint64{true: 1}[v])
		case []float32:
			f.slice(v, len(v), cap(v))
		case []uint32:
			words := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
			f.slice(words, len(v), cap(v))
		case []float64:
			words := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(v))), 2*len(v))
			f.slice(words, len(v), cap(v))
		default:
			return f, fmt.Errorf("argument of type %T", arg)
		}
	}
	f.align(8)
	return f, nil
}

// slice places the header of a slice with the memory words.
func (f *frame) slice(words []float32, length, capacity int) {
	f.slices = append(f.slices, words)
	f.put(8, addressOf(words))
	f.put(8, uint64(length))
	f.put(8, uint64(capacity))
}

func (f *frame) align(size int) {
	for len(f.bytes)%size != 0 {
		f.bytes = append(f.bytes, 0)
	}
}

func (f *frame) put(size int, value uint64) {
	f.align(size)
	f.bytes = append(f.bytes, binary.LittleEndian.AppendUint64(nil, value)[:size]...)
}

// get reads size bytes at an offset.
func (f *frame) get(offset, size int) (uint64, error) {
	if offset < 0 || offset+size > len(f.bytes) {
		return 0, fmt.Errorf("frame access at %d", offset)
	}
	var word [8]byte
	copy(word[:], f.bytes[offset:offset+size])
	return binary.LittleEndian.Uint64(word[:]), nil
}

func (f *frame) set(offset, size int, value uint64) error {
	if offset < 0 || offset+size > len(f.bytes) {
		return fmt.Errorf("frame access at %d", offset)
	}
	copy(f.bytes[offset:offset+size], binary.LittleEndian.AppendUint64(nil, value))
	return nil
}
