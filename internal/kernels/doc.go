// Package kernels holds the arithmetic that dominates training and scoring:
// float32 matrix products, the functions of recurrent cells and of the softmax,
// and updates of vectors. Matrices are row-major slices with a stride; no
// function starts a goroutine, keeps a slice, or allocates in the steady state,
// and all may run concurrently on separate data.
//
//	kernels.Gemm(false, true, m, n, k, 1, a, lda, b, ldb, 0, c, ldc) // C = A*Bᵀ
//
//	var packed kernels.Packed // for a B that is used many times
//	kernels.PackB(false, k, n, b, ldb, &packed)
//	kernels.GemmPacked(false, m, 1, a, lda, &packed, 1, c, ldc) // C += A*B
//
// Slices too short for their shape, or of different lengths where they must
// agree, are mistakes of the caller and panic with a message that names them.
//
// # Sets
//
// There are three sets of kernels: assembly for AVX-512 (F, DQ, BW and VL),
// assembly for AVX2 with FMA, and plain Go. The best that the processor runs
// is chosen at start; Set names it. The environment variable COALMINE_KERNELS
// forces one; commands call Check to refuse a set that cannot run.
//
// # Equal bytes
//
// All three sets give the same bytes for the same arguments, on any processor,
// infinities and subnormal numbers included; only the payload of a NaN is left
// open. The plain Go code is the definition:
//
// Gemm cuts k into blocks of 384. Within a block, an element of the product is
// one chain of fused multiply-adds, from zero, in the order of k. C is first
// multiplied by beta and rounded (by nothing if beta is 1); then C = fma(alpha,
// sum, C) for each block in order. With beta 0, the first block stores
// alpha*sum instead. Nothing depends on how the rows and columns are tiled, so
// an element is a function of its row of A, its column of B, alpha, beta and
// its old value alone.
//
// Exp, Sigmoid and Tanh are polynomials after a reduction of the range,
// one sequence of correctly rounded operations for each element.
//
// Sums (ExpSum, LogSumExp, Dot, SquaredNorm) and Max deal element i to lane
// i mod 16. Every lane combines its elements in order, sums in float64; then
// lane i takes in lane i+8, i+4, i+2 and i+1. AddRowDots does the same in float32;
// the sums of ExpColumns run down the columns, as it says.
//
// ChaCha8, the blocks that many random streams are drawn from in step, uses integers
// alone.
//
// GemmRounded adds up integers, which is exact in any order; CIFGRoughDot is one
// sequence of operations for each unit, and a sum in float32 like that of AddRowDots.
// The documentation of both bounds their errors.
//
// The plain Go set emulates the fused multiply-add of float32 (package ieee),
// at about a hundredth of the speed of AVX2.
//
// # Assembly
//
// The assembly is written by package gen, in which a kernel is described once
// for both widths, from the constants of package constant. Tests compare every
// set that the processor runs with the plain Go one; and they interpret the
// assembly of both instruction sets, by package emulate, on any processor. So
// the AVX-512 kernels are tested where there is no AVX-512 too. Scripts beside
// bench/static/README.md compare the machine code with the assembly, and compute how
// fast the loops are on other processors.
package kernels

//go:generate go run ./gen -out kernels_amd64.s -stubs kernels_amd64.go -pkg kernels
