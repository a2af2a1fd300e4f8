package emulate

import (
	"fmt"
	"math"
)

// integerHandlers execute the instructions on general-purpose registers. The
// destination is the last operand.
var integerHandlers = map[string]func(*machine, []operand) error{
	"MOVQ":   func(m *machine, a []operand) error { return m.move(a, 8) },
	"MOVB":   func(m *machine, a []operand) error { return m.move(a, 1) },
	"LEAQ":   (*machine).loadAddress,
	"ADDQ":   arithmetic(func(d, s uint64) uint64 { return d + s }),
	"XORQ":   arithmetic(func(d, s uint64) uint64 { return d ^ s }),
	"SHLQ":   arithmetic(func(d, s uint64) uint64 { return d << (s & 63) }),
	"SHRQ":   arithmetic(func(d, s uint64) uint64 { return d >> (s & 63) }),
	"DECQ":   unary(func(d uint64) uint64 { return d - 1 }),
	"NEGQ":   unary(func(d uint64) uint64 { return -d }),
	"SUBQ":   (*machine).subtract,
	"CMPQ":   (*machine).compare,
	"TESTB":  test(0xFF),
	"TESTQ":  test(math.MaxUint64),
	"IMUL3Q": (*machine).multiply,
}

func (m *machine) integer(o operand, size int) (uint64, error) {
	switch o.kind {
	case immediate:
		return o.value, nil
	case general:
		return m.general[o.index], nil
	case parameter:
		return m.frame.get(o.displacement, size)
	case vector, opmask, memory, label:
	}
	return 0, fmt.Errorf("operand is no integer")
}

// move of a byte is used only to fetch a bool, so it may clear the rest.
func (m *machine) move(a []operand, size int) error {
	value, err := m.integer(a[0], size)
	if err != nil {
		return err
	}
	if a[1].kind == parameter {
		return m.frame.set(a[1].displacement, size, value)
	}
	m.general[a[1].index] = value
	return nil
}

func (m *machine) loadAddress(a []operand) error {
	address, err := m.address(a[0])
	m.general[a[1].index] = address
	return err
}

func arithmetic(f func(d, s uint64) uint64) func(*machine, []operand) error {
	return func(m *machine, a []operand) error {
		s, err := m.integer(a[0], 8)
		if err != nil {
			return err
		}
		d := &m.general[a[1].index]
		*d = f(*d, s)
		m.flags = flags{zero: *d == 0}
		return nil
	}
}

func unary(f func(uint64) uint64) func(*machine, []operand) error {
	return func(m *machine, a []operand) error {
		d := &m.general[a[0].index]
		*d = f(*d)
		m.flags = flags{zero: *d == 0}
		return nil
	}
}

// subtract computes d -= s; the Go assembler writes s first.
func (m *machine) subtract(a []operand) error {
	s, err := m.integer(a[0], 8)
	if err != nil {
		return err
	}
	d := &m.general[a[1].index]
	m.flags = compared(*d, s)
	*d -= s
	return nil
}

// compare compares its first operand with its second, unlike subtract.
func (m *machine) compare(a []operand) error {
	x, err := m.integer(a[0], 8)
	if err != nil {
		return err
	}
	y, err := m.integer(a[1], 8)
	m.flags = compared(x, y)
	return err
}

func compared(x, y uint64) flags {
	return flags{zero: x == y, less: int64(x) < int64(y), compared: true}
}

// test tests the bits of a mask, the width of the instruction.
func test(mask uint64) func(*machine, []operand) error {
	return func(m *machine, a []operand) error {
		m.flags = flags{zero: m.general[a[0].index]&m.general[a[1].index]&mask == 0}
		return nil
	}
}

func (m *machine) multiply(a []operand) error {
	m.general[a[2].index] = m.general[a[1].index] * a[0].value
	m.flags = flags{}
	return nil
}
