package networks

import (
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"gorgonia.org/gorgonia"

	"coalmine/internal/kernels"
)

// engine is gonum's BLAS with the float32 matrix product of package kernels.
type engine struct{ gonum.Implementation }

// Sgemm computes c = alpha*op(a)*op(b) + beta*c, row-major.
func (engine) Sgemm(transA, transB blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	kernels.Gemm(transA != blas.NoTrans, transB != blas.NoTrans, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}

// useEngine makes Gorgonia, and with it its tensors, use the engine in the whole process.
var useEngine = sync.OnceFunc(func() { gorgonia.Use(engine{}) })
