package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

// updates emits the kernels that change a vector in place.
func (s isa) updates() {
	s.axpy()
	s.scale()
	s.add()
	s.scaleAdd()
}

func (s isa) axpy() {
	s.function("axpy", "(alpha float32, x, y []float32)")
	x, y, n, index := base("x"), base("y"), length("x"), zeroIndex()
	alpha := s.splat("alpha")
	s.loop(n, 1, []reg.GPVirtual{index}, func(s step) {
		v, w := s.read(x, index), s.read(y, index)
		VFMADD231PS(v, alpha, w)
		s.write(w, y, index)
	})
	finish()
}

func (s isa) scale() {
	s.function("scale", "(alpha float32, x []float32)")
	x, n, index := base("x"), length("x"), zeroIndex()
	alpha := s.splat("alpha")
	s.loop(n, 1, []reg.GPVirtual{index}, func(s step) {
		v := s.read(x, index)
		VMULPS(alpha, v, v)
		s.write(v, x, index)
	})
	finish()
}

func (s isa) add() {
	s.function("add", "(dst, x []float32)")
	dst, x, n, index := base("dst"), base("x"), length("x"), zeroIndex()
	s.loop(n, 1, []reg.GPVirtual{index}, func(s step) {
		v, w := s.read(dst, index), s.read(x, index)
		VADDPS(w, v, v)
		s.write(v, dst, index)
	})
	finish()
}

func (s isa) scaleAdd() {
	s.function("scaleAdd", "(alpha float32, x, y []float32)")
	x, y, n, index := base("x"), base("y"), length("x"), zeroIndex()
	alpha := s.splat("alpha")
	s.loop(n, 1, []reg.GPVirtual{index}, func(s step) {
		v, w := s.read(x, index), s.read(y, index)
		VMULPS(alpha, v, v)
		s.write(v, x, index)
		VADDPS(v, w, w)
		s.write(w, y, index)
	})
	finish()
}
