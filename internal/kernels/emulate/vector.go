package emulate

import (
	"fmt"
	"math"
	"math/bits"

	"coalmine/internal/kernels/ieee"
)

// vectorHandlers execute the vector instructions. The assembler's operands are in the reverse order of
// the manual: the destination comes last, the first source before it.
var vectorHandlers = map[string]func(*machine, []operand) error{
	"VADDPS": singles(func(x, y float32) float32 { return x + y }),
	"VSUBPS": singles(func(x, y float32) float32 { return x - y }),
	"VMULPS": singles(func(x, y float32) float32 { return x * y }),
	"VDIVPS": singles(func(x, y float32) float32 { return x / y }),
	"VMAXPS": singles(func(x, y float32) float32 {
		if x > y {
			return x
		}
		return y
	}),
	"VMINPS": singles(func(x, y float32) float32 {
		if x < y {
			return x
		}
		return y
	}),
	"VFMADD213PS":  fused(func(d, x, y float32) float32 { return ieee.FMA32(x, d, y) }),
	"VFMADD231PS":  fused(func(d, x, y float32) float32 { return ieee.FMA32(x, y, d) }),
	"VFNMADD231PS": fused(func(d, x, y float32) float32 { return ieee.FMA32(-x, y, d) }),
	"VADDPD":       doubles(func(_, x, y float64) float64 { return x + y }),
	"VSUBPD":       doubles(func(_, x, y float64) float64 { return x - y }),
	"VMULPD":       doubles(func(_, x, y float64) float64 { return x * y }),
	"VFMADD231PD":  doubles(func(d, x, y float64) float64 { return math.FMA(x, y, d) }),

	"VPADDD": words(func(x, y uint32) uint32 { return x + y }),
	"VPMADDWD": words(func(x, y uint32) uint32 {
		return uint32(int32(int16(x))*int32(int16(y)) + int32(int16(x>>16))*int32(int16(y>>16)))
	}),
	"VPMAXSD": words(func(x, y uint32) uint32 { return uint32(max(int32(x), int32(y))) }),
	"VPSUBD":  words(func(x, y uint32) uint32 { return x - y }),
	"VPAND":   words(func(x, y uint32) uint32 { return x & y }),
	"VPANDD":  words(func(x, y uint32) uint32 { return x & y }),
	"VPOR":    words(func(x, y uint32) uint32 { return x | y }),
	"VPORD":   words(func(x, y uint32) uint32 { return x | y }),
	"VPXOR":   words(func(x, y uint32) uint32 { return x ^ y }),
	"VPXORD":  words(func(x, y uint32) uint32 { return x ^ y }),
	"VPSLLD":  shifts(func(x uint32, by uint64) uint32 { return x << by }),
	"VPSRLD":  shifts(func(x uint32, by uint64) uint32 { return x >> by }),
	"VPROLD":  shifts(func(x uint32, by uint64) uint32 { return bits.RotateLeft32(x, int(by)) }),
	"VPSRAD":  shifts(func(x uint32, by uint64) uint32 { return uint32(int32(x) >> by) }),

	"VCVTDQ2PS":    (*machine).integersToSingles,
	"VCVTPS2PD":    (*machine).singlesToDoubles,
	"VCVTPD2PS":    (*machine).doublesToSingles,
	"VCVTPD2PSY":   (*machine).doublesToSingles,
	"VBLENDVPS":    (*machine).blendBySign,
	"VBLENDMPS":    (*machine).blendByMask,
	"VPMOVD2M":     (*machine).signsToMask,
	"KMOVW":        (*machine).moveMask,
	"VMOVUPS":      (*machine).moveVector,
	"VMOVUPD":      (*machine).moveVector,
	"VMOVUPS.Z":    (*machine).loadZeroing,
	"VMASKMOVPS":   (*machine).moveBySign,
	"VMOVSS":       func(m *machine, a []operand) error { return m.moveLanes(a, 1) },
	"VMOVSD":       func(m *machine, a []operand) error { return m.moveLanes(a, 2) },
	"VBROADCASTSS": func(m *machine, a []operand) error { return m.broadcast(a, 1) },
	"VBROADCASTSD": func(m *machine, a []operand) error { return m.broadcast(a, 2) },
	"VZEROUPPER":   (*machine).zeroUpper,

	"VEXTRACTF128":  extract(4),
	"VEXTRACTF64X4": extract(8),
	"VPERM2F128":    (*machine).permuteHalves,
	"VPERMILPS":     permuteWithin(func(lane int, control uint64) int { return int(control >> (2 * lane) & 3) }),
	"VPERMILPD":     permuteWithin(func(lane int, control uint64) int { return 2*int(control>>(lane/2)&1) + lane%2 }),
	"VUNPCKLPS":     unpack(1, 0),
	"VUNPCKHPS":     unpack(1, 2),
	"VUNPCKLPD":     unpack(2, 0),
	"VUNPCKHPD":     unpack(2, 2),
}

// lanewise computes each lane of the destination from itself and the sources.
func lanewise(f func(d, x, y register, lanes int) register) func(*machine, []operand) error {
	return func(m *machine, a []operand) error {
		if len(a) != 3 {
			return fmt.Errorf("%d operands", len(a))
		}
		n := a[2].lanes
		y, err := m.lanes(a[0], n)
		if err != nil {
			return err
		}
		x, err := m.lanes(a[1], n)
		if err != nil {
			return err
		}
		return m.set(a[2], n, f(m.vector[a[2].index], x, y, n))
	}
}

func words(f func(x, y uint32) uint32) func(*machine, []operand) error {
	return lanewise(func(_, x, y register, n int) (r register) {
		for i := range n {
			r[i] = f(x[i], y[i])
		}
		return r
	})
}

func fused(f func(d, x, y float32) float32) func(*machine, []operand) error {
	return lanewise(func(d, x, y register, n int) (r register) {
		for i := range n {
			r[i] = math.Float32bits(f(math.Float32frombits(d[i]), math.Float32frombits(x[i]), math.Float32frombits(y[i])))
		}
		return r
	})
}

func singles(f func(x, y float32) float32) func(*machine, []operand) error {
	return fused(func(_, x, y float32) float32 { return f(x, y) })
}

func doubles(f func(d, x, y float64) float64) func(*machine, []operand) error {
	return lanewise(func(d, x, y register, n int) (r register) {
		for i := 0; i < n; i += 2 {
			r.setDouble(i, f(d.double(i), x.double(i), y.double(i)))
		}
		return r
	})
}

func (r *register) double(i int) float64 {
	return math.Float64frombits(uint64(r[i]) | uint64(r[i+1])<<32)
}

func (r *register) setDouble(i int, value float64) {
	bits := math.Float64bits(value)
	r[i], r[i+1] = uint32(bits), uint32(bits>>32)
}

func shifts(f func(x uint32, by uint64) uint32) func(*machine, []operand) error {
	return func(m *machine, a []operand) error {
		r, err := m.lanes(a[1], a[2].lanes)
		for i := range r {
			r[i] = f(r[i], a[0].value)
		}
		return firstError(err, m.set(a[2], a[2].lanes, r))
	}
}

func (m *machine) integersToSingles(a []operand) error {
	r, err := m.lanes(a[0], a[1].lanes)
	for i := range r {
		r[i] = math.Float32bits(float32(int32(r[i])))
	}
	return firstError(err, m.set(a[1], a[1].lanes, r))
}

func (m *machine) singlesToDoubles(a []operand) error {
	x, err := m.lanes(a[0], a[1].lanes/2)
	var r register
	for i := range a[1].lanes / 2 {
		r.setDouble(2*i, float64(math.Float32frombits(x[i])))
	}
	return firstError(err, m.set(a[1], a[1].lanes, r))
}

func (m *machine) doublesToSingles(a []operand) error {
	x, err := m.lanes(a[0], a[0].lanes)
	var r register
	for i := range a[1].lanes {
		r[i] = math.Float32bits(float32(x.double(2 * i)))
	}
	return firstError(err, m.set(a[1], a[1].lanes, r))
}

// blendBySign takes the second source in lanes with the mask's sign bit set.
func (m *machine) blendBySign(a []operand) error { return m.blend(a[1], a[2], a[3], m.signed(a[0])) }

func (m *machine) blendByMask(a []operand) error { return m.blend(a[0], a[1], a[3], m.masked(a[2])) }

func (m *machine) blend(yes, no, to operand, chosen func(int) bool) error {
	y, err := m.lanes(yes, to.lanes)
	if err != nil {
		return err
	}
	r := m.vector[no.index]
	for i := range to.lanes {
		if chosen(i) {
			r[i] = y[i]
		}
	}
	return m.set(to, to.lanes, r)
}

// signed and masked report which lanes a mask selects.
func (m *machine) signed(mask operand) func(int) bool {
	r := m.vector[mask.index]
	return func(i int) bool { return r[i]>>31 == 1 }
}

func (m *machine) masked(mask operand) func(int) bool {
	bits := m.opmask[mask.index]
	return func(i int) bool { return bits>>i&1 == 1 }
}

func (m *machine) signsToMask(a []operand) error {
	m.opmask[a[1].index] = 0
	negative := m.signed(a[0])
	for i := range a[0].lanes {
		if negative(i) {
			m.opmask[a[1].index] |= 1 << i
		}
	}
	return nil
}

func (m *machine) moveMask(a []operand) error {
	if a[0].kind != general || a[1].kind != opmask {
		return fmt.Errorf("only from a general register to a mask")
	}
	m.opmask[a[1].index] = uint16(m.general[a[0].index])
	return nil
}

// moveVector moves whole vectors, or stores the lanes of a mask.
func (m *machine) moveVector(a []operand) error {
	if len(a) == 3 {
		if a[2].kind != memory {
			return fmt.Errorf("masked move to a register")
		}
		return m.setWhere(a[2], a[0].lanes, m.vector[a[0].index], m.masked(a[1]))
	}
	return m.moveLanes(a, max(a[0].lanes, a[1].lanes))
}

func (m *machine) moveLanes(a []operand, n int) error {
	r, err := m.lanes(a[0], n)
	return firstError(err, m.set(a[1], n, r))
}

func (m *machine) loadZeroing(a []operand) error {
	r, err := m.lanesWhere(a[0], a[2].lanes, m.masked(a[1]))
	return firstError(err, m.set(a[2], a[2].lanes, r))
}

func (m *machine) moveBySign(a []operand) error {
	n := a[1].lanes
	if a[2].kind == memory {
		return m.setWhere(a[2], n, m.vector[a[0].index], m.signed(a[1]))
	}
	r, err := m.lanesWhere(a[0], n, m.signed(a[1]))
	return firstError(err, m.set(a[2], n, r))
}

// broadcast repeats a number of the given lanes.
func (m *machine) broadcast(a []operand, lanes int) error {
	number, err := m.lanes(a[0], lanes)
	var r register
	for i := range r {
		r[i] = number[i%lanes]
	}
	return firstError(err, m.set(a[1], a[1].lanes, r))
}

// zeroUpper clears only the registers that exist without AVX-512.
func (m *machine) zeroUpper([]operand) error {
	for i := range 16 {
		clear(m.vector[i][4:])
	}
	return nil
}

// extract takes the lower or the upper half of a register.
func extract(half int) func(*machine, []operand) error {
	return func(m *machine, a []operand) error {
		var r register
		copy(r[:half], m.vector[a[1].index][int(a[0].value&1)*half:])
		return m.set(a[2], half, r)
	}
}

// permuteHalves builds each 128-bit half from one of the four halves of its sources.
func (m *machine) permuteHalves(a []operand) error {
	x, y := m.vector[a[2].index], m.vector[a[1].index]
	halves := [4][]uint32{x[0:4], x[4:8], y[0:4], y[4:8]}
	var r register
	copy(r[0:4], halves[a[0].value&3])
	copy(r[4:8], halves[a[0].value>>4&3])
	return m.set(a[3], 8, r)
}

// permuteWithin reorders the lanes of a 128-bit register.
func permuteWithin(from func(lane int, control uint64) int) func(*machine, []operand) error {
	return func(m *machine, a []operand) error {
		if a[2].lanes != 4 {
			return fmt.Errorf("only on 128 bits")
		}
		var r register
		for i := range 4 {
			r[i] = m.vector[a[1].index][from(i, a[0].value)]
		}
		return m.set(a[2], 4, r)
	}
}

// unpack interleaves elements of the given lanes of its sources, taken from
// lane start on in every 128 bits.
func unpack(element, start int) func(*machine, []operand) error {
	return lanewise(func(_, x, y register, n int) (r register) {
		for base := 0; base < n; base += 4 {
			for i := range 4 {
				source, at := x, i/(2*element)*element+i%element
				if i/element%2 == 1 {
					source = y
				}
				r[base+i] = source[base+start+at]
			}
		}
		return r
	})
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

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
