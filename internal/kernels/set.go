package kernels

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// Environment names the variable that forces a set: go, avx2 or avx512.
const Environment = "COALMINE_KERNELS"

// set is one implementation of every kernel. All sets compute the same bytes.
type set struct {
	name string

	// The matrix tile covers up to tileRows rows and tileColumns columns of C, by registers of
	// tileLanes; tiles[v][r] is the kernel for v registers of columns and r rows.
	tileRows, tileColumns, tileLanes int
	tiles                            [][]tileFunc
	// transpose8 writes the transpose of the block src[i*srcRow+j], 8 rows by
	// 8*count columns, to dst; count > 0.
	transpose8 func(dst []float32, dstRow int, src []float32, srcRow, count int)

	exp, sigmoid, tanh func(dst, x []float32)
	max                func(x []float32) float32
	// expSum stores exp(x-max) in dst and returns its sum; sumExp only sums.
	expSum func(dst, x []float32, max float32) float64
	sumExp func(x []float32, max float32) float64
	// moments stores the sums of e*y and of e*y^2, y = x-max, in sums[0] and sums[1].
	moments func(e, x []float32, max float32, sums []float64)
	// expColumns and dotRows process four rows of x, or one.
	expColumns, expColumns1 func(x []float32, row, columns int, bias []float32, sums []float64)
	dotRows, dotRows1       func(dst, x []float32, row, columns int, y []float32)

	axpy      func(alpha float32, x, y []float32)
	scale     func(alpha float32, x []float32)
	add       func(dst, x []float32)
	dot       func(x, y []float32) float64
	mul       func(dst, x, y []float32)
	blend     func(dst, w, x, y []float32)    // dst = y + w*(x-y)
	mulAdd    func(dst, v, w, x, y []float32) // dst = v*w + x*y
	cifgGates func(input, recurrent, previous, cell, output, ahead, later []float32)
	mulTanh   func(dst, x []float32) // dst = dst*tanh(x)
	// roundedTile multiplies roundedRows rows of A, which divide roundedRows of the
	// package, with panels of B, in pairs, and scales each row of the sums.
	roundedTile  func(panels, depth int, a, b, c []float32, cRow int, scales []float32)
	roundedRows  int
	cifgRoughDot func(input, recurrent, previous, x, y, ahead, later []float32) float32
	cifgBackward func(gates, previous, tanhCell, dOutput, dCell, dGates []float32)
	lstmBackward func(gates, previous, tanhCell, dOutput, dCell, dGates []float32)
	gruCandidate func(dst, r, x []float32)    // dst = dst + r*x, the product rounded
	gruCell      func(dst, u, x, z []float32) // dst = z + u*(x-z), the product rounded
	gruBackward  func(gates, candidate, previous, dOutput, dCell, dGates, dCandidate []float32)

	// Kernels of images: see the functions of the same names; no argument is empty.
	maxPool         func(count, channels, below int, x, y []float32)
	maxPoolBackward func(count, channels, below int, x, dy, dx []float32)
	sumRows         func(rows int, dst, x []float32)
	rectify         func(alpha float32, x, y []float32)
	// columnMoments takes a multiple of ColumnUnit columns of rows that are row elements apart.
	columnMoments            func(rows, columns, row int, x, y []float32, plain, product []float64)
	normalizeColumns         func(rows int, x, mean, inverse []float32)
	normalizeColumnsBackward func(rows int, dst, v, x, inverse, plain, product []float32)

	// Kernels of transformers. rowMoments processes momentRows rows, and both take a multiple of rowUnit columns.
	rowMoments   func(columns, row int, x []float32, shift, plain, squares []float64)
	normalizeRow func(dst, x, scale, shift []float32, mean, factor float64)
	gelu         func(dst, x []float32)

	// chaCha8 computes blocks of lanes that divide ChaCha8Lanes.
	chaCha8 func(rows, state []uint32)

	// peak runs rounds of register-only multiply-adds and returns their number
	// of floating-point operations.
	peak func(rounds int) int
}

var (
	active    atomic.Pointer[set]
	errForced error
)

func init() {
	active.Store(available()[0])
	if name := os.Getenv(Environment); name != "" {
		if _, err := ForceSet(name); err != nil {
			errForced = fmt.Errorf("environment variable %s: %w", Environment, err)
		}
	}
}

// Set names the kernels in use: "avx512", "avx2" or "go".
func Set() string { return active.Load().name }

// Check returns an error if COALMINE_KERNELS names kernels that do not exist or that this processor
// cannot run; the default kernels are then in use. Commands call it before they start.
func Check() error { return errForced }

// Sets names the sets that this processor can run, fastest first.
func Sets() []string {
	var names []string
	for _, s := range available() {
		names = append(names, s.name)
	}
	return names
}

// ForceSet makes every later call in the process use the named set, and returns a
// function that restores the previous one. It is for tests that compare sets: it
// affects all goroutines, so such tests must not be parallel.
func ForceSet(name string) (restore func(), err error) {
	sets := available()
	i := slices.IndexFunc(sets, func(s *set) bool { return s.name == name })
	if i < 0 {
		return nil, fmt.Errorf("kernel set %q: this processor runs %s; use one of these", name, strings.Join(Sets(), ", "))
	}
	previous := active.Swap(sets[i])
	return func() { active.Store(previous) }, nil
}
