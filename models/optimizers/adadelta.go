package optimizers

var adadeltaRule = Rule{
	Kind: Adadelta, Title: "Adadelta",
	Summary:    "the gradient times the root mean square of the steps so far, over that of the gradients; a learning rate of 1 is the paper's",
	Source:     "Zeiler 2012, algorithm 1",
	Parameters: []Default{{beta2, 0.95}, {epsilon, 1e-6}},
	start: func(c Config, n int) Optimizer {
		return &adadelta{
			keep: float32(c.Beta2), add: float32(1 - c.Beta2), epsilon: float32(c.Epsilon),
			squares: make([]float32, n), steps: make([]float32, n),
		}
	},
}

// adadelta is Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012, algorithm 1, with
// its decay rho as beta2:
//
//	squares = beta2 * squares + (1-beta2) * grad^2
//	step    = sqrt(steps + epsilon) / sqrt(squares + epsilon) * grad
//	steps   = beta2 * steps + (1-beta2) * step^2
//	params -= rate * step
//
// The paper has no rate; steps accumulates before the rate is applied, as in
// PyTorch.
type adadelta struct {
	keep, add, epsilon float32
	squares, steps     []float32
}

func (o *adadelta) Step(params, grad []float32, learningRate float64) {
	checkSizes(params, grad, len(o.squares))
	rate := float32(learningRate)
	for i, g := range grad {
		o.squares[i] = o.decayed(o.squares[i], g)
		step := float32(sqrt(o.steps[i]+o.epsilon)/sqrt(o.squares[i]+o.epsilon)) * g
		o.steps[i] = o.decayed(o.steps[i], step)
		params[i] -= float32(rate * step)
	}
}

// decayed returns the decaying mean of squares after adding x.
func (o *adadelta) decayed(mean, x float32) float32 {
	return float32(o.keep*mean) + float32(o.add*float32(x*x))
}

func (o *adadelta) State() []NamedVector {
	return []NamedVector{{"squares", o.squares}, {"steps", o.steps}}
}

func (o *adadelta) Restore(state []NamedVector) error { return restore(o.State(), state) }
