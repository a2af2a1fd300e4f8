package optimizers

import "coalmine/internal/kernels"

var sgdRule = Rule{
	Kind: SGD, Title: "SGD", PlainStep: true,
	Summary: "steps along the gradient; on the server at rate 1 it is federated averaging",
	Source:  "McMahan et al. 2017, algorithm 1",
	start:   func(_ Config, n int) Optimizer { return &sgd{size: n} },
}

// sgd: params -= rate * grad.
type sgd struct{ size int }

func (o *sgd) Step(params, grad []float32, learningRate float64) {
	checkSizes(params, grad, o.size)
	kernels.Axpy(float32(-learningRate), grad, params)
}

func (o *sgd) State() []NamedVector { return nil }

var momentumRule = Rule{
	Kind: Momentum, Title: "Momentum", PlainStep: true,
	Summary:    "steps along a decaying sum of the gradients",
	Source:     "Sutskever et al. 2013, section 2",
	Parameters: []Default{{momentumShare, 0.9}},
	start:      func(c Config, n int) Optimizer { return &momentum{float32(c.Momentum), false, make([]float32, n)} },
}

var nesterovRule = Rule{
	Kind: Nesterov, Title: "Nesterov", PlainStep: true,
	Summary:    "momentum that looks ahead by one step",
	Source:     "Sutskever et al. 2013, section 2",
	Parameters: []Default{{momentumShare, 0.9}},
	start:      func(c Config, n int) Optimizer { return &momentum{float32(c.Momentum), true, make([]float32, n)} },
}

// momentum: velocity = decay * velocity + grad; params -= rate * velocity, or
// with Nesterov's look-ahead params -= rate * (grad + decay * velocity).
//
// Source: Sutskever et al., "On the Importance of Initialization and Momentum in Deep Learning"
// (2013), section 2, in the form without the learning rate in the velocity, so that a change of
// rate takes effect at once.
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
