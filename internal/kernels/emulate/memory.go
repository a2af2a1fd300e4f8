package emulate

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

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

// memoryMap is the memory that a call may access: the slices of its arguments
// and the constants. Slices keep their addresses, so that overlapping ones
// overlap.
type memoryMap struct {
	slices    [][]float32
	constants []*constants // in order of address
}

func addressOf(s []float32) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s))))
}

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
