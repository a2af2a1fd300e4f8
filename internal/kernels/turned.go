package kernels

// multiplyTurned computes a product with a transposed A and a plain B as the
// transpose of Bᵀ * A: the operand that must be packed, because its columns are
// read, is then B, the smaller one. Every element is the same chain of
// multiply-adds, so the bytes are equal. It requires beta 0 and no bias.
func (s *set) multiplyTurned(g product, b []float32, ldb int) {
	checkMatrix("a", g.a, g.m, g.k, g.lda, true)
	checkMatrix("c", g.c, g.m, g.n, g.ldc, false)
	w := workspaces.Get().(*workspace)
	defer workspaces.Put(w)
	w.turned = aligned(w.turned, g.n*g.m)
	turned := product{transA: true, m: g.n, n: g.m, k: g.k, alpha: g.alpha, a: b, lda: ldb, c: w.turned, ldc: g.m}
	s.multiply(turned, operandB{data: g.a, stride: g.lda})
	s.transpose(g.c, g.ldc, w.turned, g.m, g.n, g.m)
}
