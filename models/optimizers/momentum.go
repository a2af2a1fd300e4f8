package optimizers

import "coalmine/internal/kernels"

// sgd: params -= rate * grad.
type sgd struct{ size int }

func (o *sgd) Step(params, grad []float32, learningRate float64) {
	checkSizes(params, grad, o.size)
	kernels.Axpy(float32(-learningRate), grad, params)
}

func (o *sgd) State() []NamedVector { return nil }

func (o *sgd) Restore(state []NamedVector) error { return restore(nil, state) }

// momentum: velocity = decay * velocity + grad; params -= rate * velocity, or
// with Nesterov's look-ahead params -= rate * (grad + decay * velocity).
//
// Source: Sutskever et al., "On the Importance of Initialization and Momentum
// in Deep Learning" (2013), section 2, in the form that keeps the learning rate
// out of the velocity, so that a change of rate takes effect at once.
type momentum struct {
	decay    float32
	nesterov bool
	velocity []float32
}

func (o *momentum) Step(params, grad []float32, learningRate float64) {
	checkSizes(params, grad, len(o.velocity))
	rate := float32(learningRate)
	kernels.Scale(o.decay, o.velocity)
	kernels.Axpy(1, grad, o.velocity)
	if o.nesterov {
		kernels.Axpy(-rate, grad, params)
		kernels.Axpy(-rate*o.decay, o.velocity, params)
		return
	}
	kernels.Axpy(-rate, o.velocity, params)
}

func (o *momentum) State() []NamedVector { return []NamedVector{{"velocity", o.velocity}} }

func (o *momentum) Restore(state []NamedVector) error { return restore(o.State(), state) }
