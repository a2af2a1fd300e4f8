package vision

import (
	"math"

	"coalmine/internal/kernels"
	"coalmine/models"
)

// The gradient penalty of Gulrajani et al. (2017), equation 3, is
//
//	P = coefficient * mean over the images x of (|g| - 1)²,  g = gradient of the sum of the outputs in x
//
// at images interpolated between data and generator. Its gradient in the weights is the gradient of
// the inner product of g with
//
//	v = coefficient * 2 (|g| - 1) / (images |g|) * g
//
// held fixed. This product is the change of the sum of the outputs when the images change by v, and
// its gradient is the change of the sum's gradient. So it takes one pass of changes forward, in the
// group tangent, and one backward, in the group interpolated. The gradient of a weight matrix is a
// sum of products d a of the gradients d of a layer's outputs with its inputs a; its change is the
// sum of d' a + d a', which determines the layout of the two groups. Slopes of activations do not
// change; the Jacobian of a normalization does: see norm.curve.

// normAddition keeps the norm of a gradient away from zero, as in the authors' code.
const normAddition = 1e-10

// penalize computes the penalty and, in the groups interpolated and tangent, the
// factors of its gradient in the weights. It needs the activations of interpolated, and the
// gradients of tangent for output gradients of 1.
func (t *discriminatorTrace) penalize(w *discriminatorWeights, coefficient float64) (penalty float64) {
	penalty = t.direct(t.imageGradient(w, tangent), coefficient)
	t.moveForward(w)
	if t.firstGradient() == interpolated {
		t.moveBackward(w)
	}
	return penalty
}

// firstGradient returns the first group that has gradients with a penalty. Without a normalization
// the gradients of interpolated do not change, and are left out.
func (t *discriminatorTrace) firstGradient() int {
	if t.d.kind == models.NoNorm {
		return generated
	}
	return interpolated
}

// direct sets the images of tangent to v, and returns the penalty.
func (t *discriminatorTrace) direct(gradient []float32, coefficient float64) (penalty float64) {
	size := t.d.conv[0].in.values()
	directions := t.group(t.images, tangent, size)
	copy(directions, gradient)
	share := coefficient / float64(t.batch)
	for i := range t.batch {
		direction := part(directions, i, i+1, size)
		length := math.Sqrt(kernels.SquaredNorm(direction) + normAddition)
		penalty += float64(share * float64((length-1)*(length-1)))
		kernels.Scale(float32(share*2*(length-1)/length), direction)
	}
	return penalty
}

// moveForward computes the change of the activations of interpolated with its images, in tangent.
func (t *discriminatorTrace) moveForward(w *discriminatorWeights) {
	units := t.d.hidden.out
	moved, hidden := t.group(t.normalized, tangent, units), t.group(t.hidden, tangent, units)
	t.d.hidden.forward(&t.scratch, t.moveConvolutions(w), w.hidden, nil, moved, t.batch)
	n := &t.norms[interpolated]
	n.jacobian(&n.forward, moved, moved, t.group(t.normalized, interpolated, units))
	copy(hidden, moved)
	leakyReLU.pass(hidden, t.group(t.hidden, interpolated, units))
}

// moveConvolutions is moveForward for the convolutions. It returns the changes of the last one.
func (t *discriminatorTrace) moveConvolutions(w *discriminatorWeights) []float32 {
	x := t.group(t.images, tangent, t.d.conv[0].in.values())
	for i := range t.d.conv {
		c := &t.d.conv[i]
		y := t.group(t.conv[i], tangent, c.out.values())
		c.forward(&t.scratch, x, w.kernel[i], nil, y, t.batch)
		leakyReLU.pass(y, t.group(t.conv[i], interpolated, c.out.values()))
		x = y
	}
	return x
}

// moveBackward computes, in interpolated, the change with the images of the gradients that tangent
// holds.
func (t *discriminatorTrace) moveBackward(w *discriminatorWeights) {
	units := t.d.hidden.out
	t.norms[interpolated].curve(
		t.group(t.dHidden, interpolated, units), t.group(t.dHidden, tangent, units), t.group(t.dNormalized, tangent, units),
		t.group(t.normalized, interpolated, units), t.group(t.normalized, tangent, units))
	t.convBackward(w, interpolated, interpolated+1)
}
