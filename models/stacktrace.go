package models

import "coalmine/internal/kernels"

// stackTrace runs an embedding and the layers above it over a batch, forward and then
// back through time, and owns the memory for it.
type stackTrace struct {
	width  int // width of a token vector
	batch  packed
	layers []layerTrace // from the lowest up

	inputs        []float32 // [rows, width]: the token vectors
	inputGradient []float32 // [rows, width]
}

func newStackTrace(embedding int, cells []cell) stackTrace {
	s := stackTrace{width: embedding, layers: make([]layerTrace, len(cells))}
	for i, c := range cells {
		s.layers[i].cell = c
	}
	return s
}

func (s *stackTrace) top() *layerTrace { return &s.layers[len(s.layers)-1] }

// forward runs the layers over the batch and returns the highest.
func (s *stackTrace) forward(w *stackWeights, d *dropout) *layerTrace {
	s.embed(w)
	x := s.inputs
	for i := range s.layers {
		l := &s.layers[i]
		l.forward(&s.batch, &w.layers[i], x)
		l.pass(d)
		x = l.passed
	}
	return s.top()
}

// backward runs the layers in reverse, from the gradient of the highest.
func (s *stackTrace) backward(w *stackWeights, d *dropout) {
	for i := len(s.layers) - 1; i >= 0; i-- {
		x, dx := s.inputs, s.inputGradient
		if i > 0 {
			x, dx = s.layers[i-1].passed, s.layers[i-1].gradient
		}
		l := &s.layers[i]
		l.passBack(d)
		l.backward(&s.batch, &w.layers[i], x, l.gradient, dx)
	}
}

// weightGradients sets the tensors of g from the results of backward. It adds to the embedding
// unless fresh is set: a tied embedding already holds its gradient as output.
func (s *stackTrace) weightGradients(g *stackWeights, fresh bool) {
	for i := range s.layers {
		l := &s.layers[i]
		l.weightGradients(s.batch.rows(), &g.layers[i], l.gradient)
	}
	if fresh {
		clear(g.embedding)
	}
	for i, token := range s.batch.inputs {
		kernels.Add(row(g.embedding, int(token), s.width), row(s.inputGradient, i, s.width))
	}
}

// embed looks up the vectors of the batch's tokens.
func (s *stackTrace) embed(w *stackWeights) {
	n := s.batch.rows() * s.width
	s.inputs = grow(s.inputs, n)
	s.inputGradient = grow(s.inputGradient, n)
	gatherRows(s.inputs, w.embedding, s.width, s.batch.inputs)
}
