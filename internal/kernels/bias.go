package kernels

import "fmt"

// GemmBias computes C = op(A)*op(B) + bias, which has n elements and is added
// to every row. It gives the same bytes as Gemm with alpha and beta 1 on a C
// that holds the bias, and does not read C.
func GemmBias(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, bias, c []float32, ldc int) {
	active.Load().gemmBias(transA, transB, m, n, k, a, lda, b, ldb, bias, c, ldc)
}

// GemmPackedBias is GemmBias with op(B) packed by PackB.
func GemmPackedBias(transA bool, m int, a []float32, lda int, b *Packed, bias, c []float32, ldc int) {
	active.Load().gemmPackedBias(transA, m, a, lda, b, bias, c, ldc)
}

func (s *set) gemmBias(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, bias, c []float32, ldc int) {
	checkMatrix("b", b, k, n, ldb, transB)
	checkBias(bias, n)
	g := product{transA: transA, m: m, n: n, k: k, alpha: 1, a: a, lda: lda, bias: bias, c: c, ldc: ldc}
	s.multiply(g, operandB{data: b, stride: ldb, trans: transB})
}

func (s *set) gemmPackedBias(transA bool, m int, a []float32, lda int, b *Packed, bias, c []float32, ldc int) {
	checkBias(bias, b.n)
	g := product{transA: transA, m: m, n: b.n, k: b.k, alpha: 1, a: a, lda: lda, bias: bias, c: c, ldc: ldc}
	s.multiply(g, operandB{packed: b})
}

func checkBias(bias []float32, n int) {
	if len(bias) != n {
		panic(fmt.Sprintf("kernels: bias has %d elements; C has %d columns", len(bias), n))
	}
}
