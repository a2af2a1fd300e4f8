package kernels

import (
	"fmt"
	"os"
	"sync"

	"coalmine/internal/kernels/emulate"
)

var assembly = sync.OnceValue(func() *emulate.Program {
	text, err := os.ReadFile("kernels_amd64.s")
	if err != nil {
		panic(err)
	}
	program, err := emulate.Parse(string(text))
	if err != nil {
		panic(err)
	}
	return program
})

// emulated is a set whose assembly is interpreted. It runs on any processor,
// and fails on any access outside of its arguments.
func emulated(suffix string, tileRows, tileLanes, tileVectors int) *set {
	call := func(name string, result any, args ...any) {
		if err := assembly().Call(name+suffix, result, args...); err != nil {
			panic(err)
		}
	}
	// Both sets move data by these.
	shared := func(name string, args ...any) {
		if err := assembly().Call(name, nil, args...); err != nil {
			panic(err)
		}
	}
	unary := func(name string) func(dst, x []float32) {
		return func(dst, x []float32) { call(name, nil, dst, x) }
	}
	backward := func(name string) func(gates, previous, tanhCell, dOutput, dCell, dGates []float32) {
		return func(gates, previous, tanhCell, dOutput, dCell, dGates []float32) {
			call(name, nil, gates, previous, tanhCell, dOutput, dCell, dGates)
		}
	}
	expColumnsNamed := func(name string) func(x []float32, row, columns int, bias []float32, sums []float64) {
		return func(x []float32, row, columns int, bias []float32, sums []float64) {
			call(name, nil, x, row, columns, bias, sums)
		}
	}
	dotRowsNamed := func(name string) func(dst, x []float32, row, columns int, y []float32) {
		return func(dst, x []float32, row, columns int, y []float32) { call(name, nil, dst, x, row, columns, y) }
	}
	s := &set{
		name:     suffix + " emulated",
		tileRows: tileRows, tileColumns: tileLanes * tileVectors, tileLanes: tileLanes,
		tiles: make([][]tileFunc, tileVectors+1),
		transpose8: func(dst []float32, dstRow int, src []float32, srcRow, count int) {
			shared("transpose8AVX2", dst, dstRow, src, srcRow, count)
		},
		exp: unary("exp"), sigmoid: unary("sigmoid"), tanh: unary("tanh"), add: unary("add"),
		axpy:       func(alpha float32, x, y []float32) { call("axpy", nil, alpha, x, y) },
		scale:      func(alpha float32, x []float32) { call("scale", nil, alpha, x) },
		max:        func(x []float32) (r float32) { call("max", &r, x); return r },
		expSum:     func(dst, x []float32, max float32) (r float64) { call("expSum", &r, dst, x, max); return r },
		sumExp:     func(x []float32, max float32) (r float64) { call("sumExp", &r, x, max); return r },
		moments:    func(e, x []float32, max float32, sums []float64) { call("moments", nil, e, x, max, sums) },
		dot:        func(x, y []float32) (r float64) { call("dot", &r, x, y); return r },
		expColumns: expColumnsNamed("expColumns4"), expColumns1: expColumnsNamed("expColumns1"),
		dotRows: dotRowsNamed("dotRows4"), dotRows1: dotRowsNamed("dotRows1"),
		mul:     func(dst, x, y []float32) { call("mul", nil, dst, x, y) },
		blend:   func(dst, w, x, y []float32) { call("blend", nil, dst, w, x, y) },
		mulAdd:  func(dst, v, w, x, y []float32) { call("mulAdd", nil, dst, v, w, x, y) },
		mulTanh: unary("mulTanh"),
		cifgGates: func(input, recurrent, previous, cell, output, ahead, later []float32) {
			call("cifgGates", nil, input, recurrent, previous, cell, output, ahead, later)
		},
		roundedRows: roundedRows * tileLanes / 16,
		roundedTile: func(panels, depth int, a, b, c []float32, cRow int, scales []float32) {
			call("roundedTile", nil, panels, depth, a, b, c, cRow, scales)
		},
		cifgRoughDot: func(input, recurrent, previous, x, y, ahead, later []float32) (r float32) {
			call("cifgRoughDot", &r, input, recurrent, previous, x, y, ahead, later)
			return r
		},
		cifgBackward: backward("cifgBackward"), lstmBackward: backward("lstmBackward"),
		gruCandidate: func(dst, r, x []float32) { call("gruCandidate", nil, dst, r, x) },
		gruCell:      func(dst, u, x, z []float32) { call("gruCell", nil, dst, u, x, z) },
		gruBackward: func(gates, candidate, previous, dOutput, dCell, dGates, dCandidate []float32) {
			call("gruBackward", nil, gates, candidate, previous, dOutput, dCell, dGates, dCandidate)
		},
		maxPool: func(count, channels, below int, x, y []float32) { call("maxPool", nil, count, channels, below, x, y) },
		maxPoolBackward: func(count, channels, below int, x, dy, dx []float32) {
			call("maxPoolBackward", nil, count, channels, below, x, dy, dx)
		},
		sumRows: func(rows int, dst, x []float32) { call("sumRows", nil, rows, dst, x) },
		columnMoments: func(rows, columns, row int, x, y []float32, plain, product []float64) {
			call("columnMoments", nil, rows, columns, row, x, y, plain, product)
		},
		normalizeColumns: func(rows int, x, mean, inverse []float32) { call("normalizeColumns", nil, rows, x, mean, inverse) },
		normalizeColumnsBackward: func(rows int, dst, v, x, inverse, plain, product []float32) {
			call("normalizeColumnsBackward", nil, rows, dst, v, x, inverse, plain, product)
		},
		rectify: func(alpha float32, x, y []float32) { call("rectify", nil, alpha, x, y) },
		rowMoments: func(columns, row int, x []float32, shift, plain, squares []float64) {
			call("rowMoments", nil, columns, row, x, shift, plain, squares)
		},
		normalizeRow: func(dst, x, scale, shift []float32, mean, factor float64) {
			call("normalizeRow", nil, dst, x, scale, shift, mean, factor)
		},
		gelu:    unary("gelu"),
		chaCha8: func(rows, state []uint32) { call("chaCha8", nil, rows, state) },
		peak:    func(rounds int) (r int) { call("peak", &r, rounds); return r },
	}
	for vectors := range s.tiles {
		s.tiles[vectors] = make([]tileFunc, tileRows+1)
		for rows := range s.tiles[vectors] {
			name := fmt.Sprintf("tile%dx%d", rows, vectors)
			s.tiles[vectors][rows] = func(count, depth int, a []float32, aRow, aStep int, b []float32, bRow int,
				c []float32, cRow, columns int, alpha float32, accumulate bool, bias []float32) {
				call(name, nil, count, depth, a, aRow, aStep, b, bRow, c, cRow, columns, alpha, accumulate, bias)
			}
		}
	}
	return s
}

var emulatedSets = []*set{emulated("AVX2", 6, 8, 2), emulated("AVX512", 8, 16, 3)}

// ForceEmulated is ForceSet for an interpreted set, for the tests outside of the
// package: "AVX2" or "AVX512".
func ForceEmulated(suffix string) (restore func()) {
	for _, s := range emulatedSets {
		if s.name == suffix+" emulated" {
			previous := active.Swap(s)
			return func() { active.Store(previous) }
		}
	}
	panic("no set is called " + suffix)
}
