package optimizers

import "math"

// Every product below is converted to float32 before it is added, so that no
// compiler fuses the two into one rounding and the bytes stay the same everywhere.

// scaled divides each element's gradient by the root of its own history:
//
//	squares = keep * squares + add * grad^2
//	params -= rate * grad / (sqrt(squares) + epsilon)
//
// With keep = add = 1 this is Adagrad (Duchi et al., "Adaptive Subgradient
// Methods", 2011); with keep = beta2, add = 1 - beta2 it is RMSProp (Tieleman
// and Hinton, Coursera lecture 6e, 2012).
type scaled struct {
	keep, add, epsilon float32
	squares            []float32
}

func newScaled(c Config, n int) *scaled {
	o := &scaled{keep: 1, add: 1, epsilon: float32(c.Epsilon), squares: make([]float32, n)}
	if c.Kind == RMSProp {
		o.keep, o.add = float32(c.Beta2), float32(1-c.Beta2)
	}
	if c.Kind == Adagrad {
		fill(o.squares, float32(c.Initial))
	}
	return o
}

func (o *scaled) Step(params, grad []float32, learningRate float64) {
	checkSizes(params, grad, len(o.squares))
	rate := float32(learningRate)
	for i, g := range grad {
		s := float32(o.keep*o.squares[i]) + float32(o.add*float32(g*g))
		o.squares[i] = s
		params[i] -= float32(rate*g) / (sqrt(s) + o.epsilon)
	}
}

func (o *scaled) State() []NamedVector { return []NamedVector{{"squares", o.squares}} }

func (o *scaled) Restore(state []NamedVector) error { return restore(o.State(), state) }

// moments keeps decaying means of the gradient and of its square.
//
// Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015,
// algorithm 1) corrects both for their start at zero:
//
//	mean    = beta1 * mean    + (1-beta1) * grad
//	squares = beta2 * squares + (1-beta2) * grad^2
//	params -= rate * mean/(1-beta1^t) / (sqrt(squares/(1-beta2^t)) + epsilon)
//
// Yogi (Zaheer et al., "Adaptive Methods for Nonconvex Optimization", 2018,
// algorithm 2) lets the squares fall no faster than they rise, and corrects nothing:
//
//	squares -= (1-beta2) * sign(squares - grad^2) * grad^2
type moments struct {
	config        Config
	mean, squares []float32
	// step holds one number, the steps taken: exact as a float32 because it
	// stops at maxStep, where the corrections have long been 1.
	step []float32
}

const maxStep = 1 << 24

func newMoments(c Config, n int) *moments {
	o := &moments{config: c, mean: make([]float32, n), squares: make([]float32, n), step: make([]float32, 1)}
	if c.Kind == Yogi {
		fill(o.squares, float32(c.Initial))
	}
	return o
}

func (o *moments) Step(params, grad []float32, learningRate float64) {
	checkSizes(params, grad, len(o.mean))
	o.step[0] = min(o.step[0]+1, maxStep)
	if o.config.Kind == Yogi {
		o.trackYogi(grad)
		o.move(params, learningRate, 1)
		return
	}
	o.trackAdam(grad)
	t := float64(o.step[0])
	rate := learningRate / (1 - math.Pow(o.config.Beta1, t))
	o.move(params, rate, 1/(1-math.Pow(o.config.Beta2, t)))
}

func (o *moments) trackAdam(grad []float32) {
	keep1, add1 := float32(o.config.Beta1), float32(1-o.config.Beta1)
	keep2, add2 := float32(o.config.Beta2), float32(1-o.config.Beta2)
	for i, g := range grad {
		o.mean[i] = float32(keep1*o.mean[i]) + float32(add1*g)
		o.squares[i] = float32(keep2*o.squares[i]) + float32(add2*float32(g*g))
	}
}

func (o *moments) trackYogi(grad []float32) {
	keep1, add1 := float32(o.config.Beta1), float32(1-o.config.Beta1)
	add2 := float32(1 - o.config.Beta2)
	for i, g := range grad {
		o.mean[i] = float32(keep1*o.mean[i]) + float32(add1*g)
		square := float32(g * g)
		switch {
		case o.squares[i] > square:
			o.squares[i] -= float32(add2 * square)
		case o.squares[i] < square:
			o.squares[i] += float32(add2 * square)
		}
	}
}

func (o *moments) move(params []float32, learningRate, correction float64) {
	rate, scale, epsilon := float32(learningRate), float32(correction), float32(o.config.Epsilon)
	for i, m := range o.mean {
		params[i] -= float32(rate*m) / (sqrt(float32(scale*o.squares[i])) + epsilon)
	}
}

func (o *moments) State() []NamedVector {
	return []NamedVector{{"mean", o.mean}, {"squares", o.squares}, {"step", o.step}}
}

func (o *moments) Restore(state []NamedVector) error { return restore(o.State(), state) }

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func fill(x []float32, value float32) {
	for i := range x {
		x[i] = value
	}
}
