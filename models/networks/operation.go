package networks

import (
	"fmt"
	"hash"
	"hash/fnv"
	"io"

	"github.com/chewxy/hm"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"coalmine/internal/kernels"
)

// operation is a Gorgonia operation on two matrices or two scalars. Its result is a matrix or a
// scalar. It reuses its own memory for the result: Gorgonia allocates every result anew in every
// run, which takes longer than the gradient of a layer of 50,000 inputs.
type operation[T Real] struct {
	// name distinguishes operations with different results.
	name          string
	rows, columns int // shape of the result; 0 for a scalar
	ofScalars     bool
	do            func(result, a, b []T) (scalar float64)
	// gradients returns the gradients by the inputs, given the result and its gradient.
	gradients func(result, grad *gorgonia.Node, inputs gorgonia.Nodes) (da, db *gorgonia.Node)

	result []T
}

// of adds the operation on two nodes to their graph.
func (op *operation[T]) of(a, b *gorgonia.Node) *gorgonia.Node {
	return gorgonia.Must(gorgonia.ApplyOp(op, a, b))
}

func (op *operation[T]) Do(inputs ...gorgonia.Value) (gorgonia.Value, error) {
	if op.result == nil {
		op.result = make([]T, op.rows*op.columns)
	}
	scalar := op.do(op.result, numbers[T](inputs[0]), numbers[T](inputs[1]))
	if op.rows > 0 {
		return view(op.result, op.rows, op.columns), nil
	}
	if _, ok := any(op.result).([]float32); ok {
		return gorgonia.NewF32(float32(scalar)), nil
	}
	return gorgonia.NewF64(scalar), nil
}

func (op *operation[T]) SymDiff(inputs gorgonia.Nodes, result, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	if op.gradients == nil {
		return nil, fmt.Errorf("%v has no gradient", op)
	}
	da, db := op.gradients(result, grad, inputs)
	return gorgonia.Nodes{da, db}, nil
}

func (op *operation[T]) DiffWRT(int) []bool {
	return []bool{op.gradients != nil, op.gradients != nil && op.rows > 0}
}

func (op *operation[T]) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) {
	if op.rows == 0 {
		return tensor.ScalarShape(), nil
	}
	return tensor.Shape{op.rows, op.columns}, nil
}

func (op *operation[T]) Type() hm.Type {
	number := hm.TypeVariable('a')
	matrix := gorgonia.TensorType{Dims: 2, Of: number}
	switch {
	case op.ofScalars:
		return hm.NewFnType(number, number, matrix)
	case op.rows == 0:
		return hm.NewFnType(matrix, matrix, number)
	}
	return hm.NewFnType(matrix, matrix, matrix)
}

func (op *operation[T]) String() string { return op.name }

func (op *operation[T]) WriteHash(h hash.Hash) { _, _ = io.WriteString(h, op.name) }

func (op *operation[T]) Hashcode() uint32 {
	h := fnv.New32a()
	op.WriteHash(h)
	return h.Sum32()
}

func (op *operation[T]) Arity() int { return 2 }

func (op *operation[T]) ReturnsPtr() bool { return true }

func (op *operation[T]) CallsExtern() bool { return false }

func (op *operation[T]) OverwritesInput() int { return -1 }

// product multiplies two matrices, by package kernels.
func product[T Real](a, b *gorgonia.Node) *gorgonia.Node {
	op := multiplication[T](false, false, a, b)
	op.gradients = func(_, grad *gorgonia.Node, _ gorgonia.Nodes) (da, db *gorgonia.Node) {
		return multiplication[T](false, true, grad, b).of(grad, b), multiplication[T](true, false, a, grad).of(a, grad)
	}
	return op.of(a, b)
}

// multiplication multiplies two matrices, each of which may be transposed first; it has no
// gradient.
func multiplication[T Real](transA, transB bool, a, b *gorgonia.Node) *operation[T] {
	lda, ldb := a.Shape()[1], b.Shape()[1]
	m, k, n := a.Shape()[0], lda, ldb
	if transA {
		m, k = k, m
	}
	if transB {
		n = b.Shape()[0]
	}
	return &operation[T]{name: fmt.Sprintf("product %t %t", transA, transB), rows: m, columns: n, do: func(result, a, b []T) float64 {
		gemm(transA, transB, m, n, k, a, lda, b, ldb, result)
		return 0
	}}
}

func gemm[T Real](transA, transB bool, m, n, k int, a []T, lda int, b []T, ldb int, c []T) {
	if a, ok := any(a).([]float32); ok {
		kernels.Gemm(transA, transB, m, n, k, 1, a, lda, any(b).([]float32), ldb, 0, any(c).([]float32), n)
		return
	}
	turn := map[bool]blas.Transpose{false: blas.NoTrans, true: blas.Trans}
	gonum.Implementation{}.Dgemm(turn[transA], turn[transB], m, n, k, 1, any(a).([]float64), lda, any(b).([]float64), ldb, 0, any(c).([]float64), n)
}
