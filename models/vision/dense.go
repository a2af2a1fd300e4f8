package vision

import "coalmine/internal/kernels"

// linear is a layer that computes a matrix product. n is the number of images, bias may be nil, and
// kernelGradient sets dk.
type linear interface {
	shape() []int
	products() int
	forward(s *scratch, x, kernel, bias, y []float32, n int)
	backward(s *scratch, dy, kernel, dx []float32, n int)
	kernelGradient(s *scratch, x, dy, dk []float32, n int)
}

// dense is a fully connected layer. Its kernel is a tensor [in, out].
type dense struct{ in, out int }

func (d dense) shape() []int { return []int{d.in, d.out} }

func (d dense) products() int { return d.in * d.out }

// forward computes the outputs y of n rows x. bias has one element per output, or is nil.
func (d dense) forward(_ *scratch, x, kernel, bias, y []float32, n int) {
	if bias == nil {
		kernels.Gemm(false, false, n, d.out, d.in, 1, x, d.in, kernel, d.out, 0, y, d.out)
		return
	}
	kernels.GemmBias(false, false, n, d.out, d.in, x, d.in, kernel, d.out, bias, y, d.out)
}

// backward computes the gradient dx of n rows from the gradient of the outputs. It computes the
// transpose, to read the kernel, by far the largest matrix, in place.
func (d dense) backward(s *scratch, dy, kernel, dx []float32, n int) {
	s.patches = grow(s.patches, d.in*n)
	kernels.Gemm(false, true, d.in, n, d.out, 1, kernel, d.out, dy, d.out, 0, s.patches, n)
	kernels.Transpose(dx, d.in, s.patches, n, d.in, n)
}

// kernelGradient sets dk to the gradient of the kernel over n rows.
func (d dense) kernelGradient(_ *scratch, x, dy, dk []float32, n int) {
	kernels.Gemm(true, false, d.in, d.out, n, 1, x, d.in, dy, d.out, 0, dk, d.out)
}

// sumRows sets sum to the sum of n rows, in their order.
func sumRows(sum, rows []float32, n int) {
	clear(sum)
	for i := range n {
		kernels.Add(sum, part(rows, i, i+1, len(sum)))
	}
}
