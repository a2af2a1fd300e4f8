package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// update is a kernel of a few plain operations on each element. Its vectors
// have the length of x.
type update struct {
	name, signature string
	scalar          string // an argument; "" without one
	inputs, outputs []string
	// compute may overwrite its arguments.
	compute func(s isa, scalar Op, in []group) []group
}

var updates = []update{
	{"axpy", "(alpha float32, x, y []float32)", "alpha", []string{"x", "y"}, []string{"y"},
		func(_ isa, alpha Op, in []group) []group {
			x, y := in[0], in[1]
			each(VFMADD231PS, x, alpha, y)
			return []group{y}
		}},
	{"scale", "(alpha float32, x []float32)", "alpha", []string{"x"}, []string{"x"},
		func(_ isa, alpha Op, in []group) []group {
			each(VMULPS, alpha, in[0], in[0])
			return in
		}},
	{"add", "(dst, x []float32)", "", []string{"dst", "x"}, []string{"dst"},
		func(_ isa, _ Op, in []group) []group {
			each(VADDPS, in[1], in[0], in[0])
			return in[:1]
		}},
	{"mul", "(dst, x, y []float32)", "", []string{"x", "y"}, []string{"dst"},
		func(s isa, _ Op, in []group) []group {
			return []group{s.product(in[0], in[1])}
		}},
	{"blend", "(dst, w, x, y []float32)", "", []string{"w", "x", "y"}, []string{"dst"},
		func(_ isa, _ Op, in []group) []group {
			w, x, y := in[0], in[1], in[2]
			each(VSUBPS, y, x, x)
			each(VFMADD231PS, x, w, y)
			return []group{y}
		}},
	{"gruCandidate", "(dst, r, x []float32)", "", []string{"dst", "r", "x"}, []string{"dst"},
		func(s isa, _ Op, in []group) []group {
			each(VADDPS, s.product(in[1], in[2]), in[0], in[0])
			return in[:1]
		}},
	{"gruCell", "(dst, u, x, z []float32)", "", []string{"u", "x", "z"}, []string{"dst"},
		func(_ isa, _ Op, in []group) []group {
			u, x, z := in[0], in[1], in[2]
			each(VSUBPS, z, x, x)
			each(VMULPS, u, x, x)
			each(VADDPS, x, z, z)
			return []group{z}
		}},
	{"mulAdd", "(dst, v, w, x, y []float32)", "", []string{"v", "w", "x", "y"}, []string{"dst"},
		func(s isa, _ Op, in []group) []group {
			v, w, xy := in[0], in[1], s.product(in[2], in[3])
			each(VFMADD231PS, w, v, xy)
			return []group{xy}
		}},
}

// updates emits the kernels of the table.
func (s isa) updates() {
	for _, u := range updates {
		s.function(u.name, u.signature)
		n, index := length("x"), zeroIndex()
		var scalar Op
		if u.scalar != "" {
			scalar = s.splat(u.scalar)
		}
		s.loop(n, unroll, indices{index}, func(s step) {
			in := make([]group, len(u.inputs))
			for i, name := range u.inputs {
				in[i] = s.read(base(name), index)
			}
			for i, out := range u.compute(s.isa, scalar, in) {
				s.write(out, base(u.outputs[i]), index)
			}
		})
		finish()
	}
}
