package optimizers

import (
	"math"
	"slices"
)

// Every product below is converted to float32 before it is added, so that no compiler fuses the
// operations and all processors give the same bytes.

var adagradRule = Rule{
	Kind: Adagrad, Title: "Adagrad",
	Summary:    "the gradient over the root of the sum of all squared ones",
	Source:     "Duchi et al. 2011",
	Parameters: []Default{{epsilon, 1e-10}, {initial, 0}},
	start:      func(c Config, n int) Optimizer { return newScaled(c, n, 1, 1) },
}

var rmspropRule = Rule{
	Kind: RMSProp, Title: "RMSProp",
	Summary:    "the gradient over the root of the mean squared one",
	Source:     "Tieleman and Hinton 2012, lecture 6e",
	Parameters: []Default{{beta2, 0.9}, {epsilon, 1e-8}},
	start:      func(c Config, n int) Optimizer { return newScaled(c, n, float32(c.Beta2), float32(1-c.Beta2)) },
}

// scaled divides each element's gradient by the root of its own history:
//
//	squares = keep * squares + add * grad^2
//	params -= rate * grad / (sqrt(squares) + epsilon)
//
// With keep = add = 1 this is Adagrad (Duchi et al., "Adaptive Subgradient Methods", 2011); with
// keep = beta2, add = 1 - beta2 it is RMSProp (Tieleman and Hinton, Coursera lecture 6e, 2012).
type scaled struct {
	keep, add, epsilon float32
	squares            []float32
}

func newScaled(c Config, n int, keep, add float32) *scaled {
	return &scaled{keep, add, float32(c.Epsilon), initialSquares(c, n)}
}

// initialSquares returns the initial sum or mean of squared gradients, 0 for rules without Config.Initial.
func initialSquares(c Config, n int) []float32 {
	return slices.Repeat([]float32{float32(c.Initial)}, n)
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

// moments are decaying means of the gradient and of its square.
type moments struct {
	config        Config
	mean, squares []float32
	// step holds one number, the steps taken: exact as a float32 because it stops at maxStep, far
	// beyond the step at which adam's corrections reach 1.
	step []float32
}

const maxStep = 1 << 24

func newMoments(c Config, n int) moments {
	return moments{config: c, mean: make([]float32, n), squares: initialSquares(c, n), step: make([]float32, 1)}
}

// count begins a step.
func (o *moments) count(params, grad []float32) {
	checkSizes(params, grad, len(o.mean))
	o.step[0] = min(o.step[0]+1, maxStep)
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

var adamRule = Rule{
	Kind: Adam, Title: "Adam",
	Summary:    "the mean gradient over the root of the mean squared one, both corrected for their start at zero",
	Source:     "Kingma and Ba 2015, algorithm 1",
	Parameters: []Default{{beta1, 0.9}, {beta2, 0.999}, {epsilon, 1e-8}},
	start:      func(c Config, n int) Optimizer { return &adam{moments: newMoments(c, n)} },
}

// fedAdamRule starts the squares at the square of epsilon's default, as in Reddi et al.
var fedAdamRule = Rule{
	Kind: FedAdam, Title: "FedAdam",
	Summary:    "adam without bias correction",
	Source:     "Reddi et al. 2021, algorithm 2 and section 5",
	Parameters: []Default{{beta1, 0.9}, {beta2, 0.99}, {epsilon, 1e-3}, {initial, 1e-6}},
	start:      func(c Config, n int) Optimizer { return &adam{newMoments(c, n), true} },
}

// adam is Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, algorithm 1:
//
//	mean    = beta1 * mean    + (1-beta1) * grad
//	squares = beta2 * squares + (1-beta2) * grad^2
//	params -= rate * mean/(1-beta1^t) / (sqrt(squares/(1-beta2^t)) + epsilon)
//
// If uncorrected, neither mean nor squares are divided.
type adam struct {
	moments
	uncorrected bool
}

func (o *adam) Step(params, grad []float32, learningRate float64) {
	o.count(params, grad)
	keep1, add1 := float32(o.config.Beta1), float32(1-o.config.Beta1)
	keep2, add2 := float32(o.config.Beta2), float32(1-o.config.Beta2)
	for i, g := range grad {
		o.mean[i] = float32(keep1*o.mean[i]) + float32(add1*g)
		o.squares[i] = float32(keep2*o.squares[i]) + float32(add2*float32(g*g))
	}
	if o.uncorrected {
		o.move(params, learningRate, 1)
		return
	}
	t := float64(o.step[0])
	rate := learningRate / (1 - math.Pow(o.config.Beta1, t))
	o.move(params, rate, 1/(1-math.Pow(o.config.Beta2, t)))
}

var yogiRule = Rule{
	Kind: Yogi, Title: "Yogi",
	Summary:    "as adam, but the squares fall no faster than they rise, and nothing is corrected",
	Source:     "Zaheer et al. 2018, section 5; initial: TensorFlow Addons",
	Parameters: []Default{{beta1, 0.9}, {beta2, 0.999}, {epsilon, 1e-3}, {initial, 1e-6}},
	start:      func(c Config, n int) Optimizer { return &yogi{newMoments(c, n)} },
}

// yogi is Zaheer et al., "Adaptive Methods for Nonconvex Optimization", 2018,
// algorithm 2: the mean and the step are adam's without its corrections, and
//
//	squares -= (1-beta2) * sign(squares - grad^2) * grad^2
type yogi struct{ moments }

func (o *yogi) Step(params, grad []float32, learningRate float64) {
	o.count(params, grad)
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
	o.move(params, learningRate, 1)
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

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
// The paper has no rate; steps accumulates before the rate is applied, as in PyTorch.
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
