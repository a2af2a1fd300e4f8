package networks

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gorgonia.org/gorgonia"

	"coalmine/internal/registry"
	"coalmine/models"
)

// Activation names the function after a hidden layer.
type Activation string

// Activations of hidden layers.
const (
	ReLU    Activation = "relu"
	Tanh    Activation = "tanh"
	Sigmoid Activation = "sigmoid"
)

// activation is the entry of one.
type activation struct {
	name  Activation
	apply func(*gorgonia.Node) (*gorgonia.Node, error)
}

// activations are all activations there are.
var activations = registry.New("activation", func(a activation) Activation { return a.name },
	activation{ReLU, gorgonia.Rectify}, activation{Tanh, gorgonia.Tanh}, activation{Sigmoid, gorgonia.Sigmoid})

// Activations lists the activations.
func Activations() []Activation { return activations.Names() }

// Config describes a classifier: fully connected layers with an activation
// after each but the last, whose outputs are the logits of a softmax.
type Config struct {
	// Inputs is the number of features, at least 1.
	Inputs int `json:"inputs"`
	// Hidden are the widths of the hidden layers, from the inputs on; none makes
	// a multinomial logistic regression.
	Hidden []int `json:"hidden,omitempty"`
	// Classes is the number of labels, 0..Classes-1. At least 2.
	Classes int `json:"classes"`
	// Activation may be empty for ReLU.
	Activation Activation `json:"activation,omitempty"`
}

// maxWidth bounds every layer, so that no size overflows.
const maxWidth = 1 << 20

// Validate reports everything that is wrong with the configuration, in one error.
func (c Config) Validate() error {
	var problems []error
	check := func(what string, value, low int) {
		if value < low || value > maxWidth {
			problems = append(problems, fmt.Errorf("%s %d: want %d to %d", what, value, low, maxWidth))
		}
	}
	check("inputs", c.Inputs, 1)
	check("classes", c.Classes, 2)
	for _, width := range c.Hidden {
		check("hidden width", width, 1)
	}
	if _, err := activations.Find(cmp.Or(c.Activation, ReLU)); err != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("classifier configuration: %w", err)
	}
	return nil
}

// Classifier is the layout of a classifier; it holds no parameters itself. Its
// tensors are layer1.weights [inputs, width], layer1.bias [1, width], and so on
// to the last layer.
type Classifier struct {
	config  Config
	tensors []models.Tensor
	size    int
}

// New checks the configuration and returns its classifier.
func New(config Config) (*Classifier, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	c := &Classifier{config: config}
	g := NewGraph[float32]()
	if _, err := logits(g, config, g.inputOf(config, 1)); err != nil {
		return nil, err
	}
	c.tensors, c.size = g.Tensors(), g.Parameters()
	return c, nil
}

// inputOf is the input of a graph of its own, which nobody fills.
func (g *Graph[T]) inputOf(c Config, batch int) *gorgonia.Node {
	x, _ := g.Input("inputs", batch, c.Inputs)
	return x
}

// Parameters is the length of the flat vector.
func (c *Classifier) Parameters() int { return c.size }

// Tensors lists the named tensors in the order of the flat vector.
func (c *Classifier) Tensors() []models.Tensor { return slices.Clone(c.tensors) }

// Init draws weights uniform in ±sqrt(6/inputs of the layer) (He et al., "Delving
// Deep into Rectifiers", 2015, equation 10, as a uniform distribution of the same
// variance), one number each in the order of the flat vector; biases are zero.
func (c *Classifier) Init(rng *rand.Rand) []float32 {
	params := make([]float32, c.size)
	for i, t := range c.tensors {
		if i%2 == 1 {
			continue // a bias
		}
		bound := math.Sqrt(6 / float64(t.Shape[0]))
		for j := range t.View(params) {
			params[t.Offset+j] = float32(bound * (2*rng.Float64() - 1))
		}
	}
	return params
}

// logits composes the layers over x [batch, inputs].
func logits[T Real](g *Graph[T], c Config, x *gorgonia.Node) (*gorgonia.Node, error) {
	widths := append(slices.Clone(c.Hidden), c.Classes)
	in := c.Inputs
	for i, width := range widths {
		var err error
		if x, err = dense(g, fmt.Sprintf("layer%d", i+1), x, in, width); err != nil {
			return nil, err
		}
		if i < len(c.Hidden) {
			if x, err = activate(x, c.Activation); err != nil {
				return nil, err
			}
		}
		in = width
	}
	return x, nil
}

// dense is x times weights plus bias.
func dense[T Real](g *Graph[T], name string, x *gorgonia.Node, in, out int) (*gorgonia.Node, error) {
	weights, bias := g.Parameter(name+".weights", in, out), g.Parameter(name+".bias", 1, out)
	product, err := gorgonia.Mul(x, weights)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	sum, err := gorgonia.BroadcastAdd(product, bias, nil, []byte{0})
	if err != nil {
		return nil, fmt.Errorf("bias of %s: %w", name, err)
	}
	return sum, nil
}

func activate(x *gorgonia.Node, name Activation) (*gorgonia.Node, error) {
	a, err := activations.Find(cmp.Or(name, ReLU))
	if err != nil {
		return nil, err
	}
	return a.apply(x)
}

// crossEntropy is the sum of -weights * log softmax(logits), of the same shape.
func crossEntropy(logits, weights *gorgonia.Node) (*gorgonia.Node, error) {
	logProbs, err := gorgonia.LogSoftMax(logits, 1)
	if err != nil {
		return nil, err
	}
	chosen, err := gorgonia.HadamardProd(logProbs, weights)
	if err != nil {
		return nil, err
	}
	sum, err := gorgonia.Sum(chosen)
	if err != nil {
		return nil, err
	}
	return gorgonia.Neg(sum)
}
