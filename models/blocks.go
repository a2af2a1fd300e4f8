package models

import (
	"fmt"
	"math"
	"slices"

	"coalmine/internal/kernels"
)

// Blocks are the options of a Transformer's blocks. The zero value describes GPT-2; the fields
// cover GPT-NeoX (Black et al., "GPT-NeoX-20B", 2022) and Llama (Touvron et al., "LLaMA:
// Open and Efficient Foundation Language Models", 2023).
type Blocks struct {
	// Rotary is the number of leading elements of each head's queries and keys that are rotated
	// by their position (Su et al., "RoFormer", 2021, section 3.2), element i with element
	// i + Rotary/2. It is even; 0 means learned positions instead.
	Rotary int `json:"rotary,omitempty"`
	// Theta is the base of the rotations' wavelengths. 0 means 10000.
	Theta float64 `json:"theta,omitempty"`
	// KeyHeads is the number of heads of keys and values, a divisor of Heads: each serves
	// Heads/KeyHeads heads of queries (Ainslie et al., "GQA", 2023). 0 means Heads.
	KeyHeads int `json:"key_heads,omitempty"`
	// Parallel blocks add attention and feed-forward layer to the same input, which each normalises
	// separately.
	Parallel bool `json:"parallel,omitempty"`
	// RMS divides only by the root mean square, without mean and shift (Zhang and Sennrich, "Root
	// Mean Square Layer Normalization", 2019).
	RMS bool `json:"rms,omitempty"`
	// Epsilon is added to the variance or the mean square. 0 means 1e-5.
	Epsilon float64 `json:"epsilon,omitempty"`
	// Activation is the nonlinearity of the feed-forward layer.
	Activation Activation `json:"activation,omitempty"`
	// Gated multiplies the activation of half of the feed-forward layer's inputs by the other
	// half (Shazeer, "GLU Variants Improve Transformer", 2020): Units each.
	Gated bool `json:"gated,omitempty"`
	// Unbiased leaves out the biases of matrices.
	Unbiased bool `json:"unbiased,omitempty"`
}

// Activation is the nonlinearity of a Transformer's feed-forward layer. The zero value is GELU in
// its approximation by tanh.
type Activation string

// ExactGELU is x times the normal distribution function at x, SiLU x times the logistic function of
// x (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2).
const (
	ExactGELU Activation = "gelu"
	SiLU      Activation = "silu"
)

func (b *Blocks) validate(problems *[]error, c *Config) {
	if c.Heads < 1 || c.Embedding < 1 {
		return
	}
	within(problems, "rotary", b.Rotary, 0, c.Embedding/c.Heads)
	within(problems, "key heads", b.keyHeads(c.Heads), 1, c.Heads)
	if b.Rotary%2 != 0 {
		*problems = append(*problems, fmt.Errorf("rotary %d: want an even number of elements, which are rotated in pairs", b.Rotary))
	}
	if n := b.keyHeads(c.Heads); n > 0 && c.Heads%n != 0 {
		*problems = append(*problems, fmt.Errorf("key heads %d: want a divisor of the %d heads, which share them", n, c.Heads))
	}
	for name, value := range map[string]float64{"theta": b.Theta, "epsilon": b.Epsilon} {
		if !(value >= 0) || math.IsInf(value, 1) {
			*problems = append(*problems, fmt.Errorf("%s %v: want a positive number, or 0 for the default", name, value))
		}
	}
	if !slices.Contains([]Activation{"", ExactGELU, SiLU}, b.Activation) {
		*problems = append(*problems, fmt.Errorf("activation %q: want %s, %s, or none for GELU by tanh", b.Activation, ExactGELU, SiLU))
	}
}

func (b *Blocks) keyHeads(heads int) int {
	if b.KeyHeads == 0 {
		return heads
	}
	return b.KeyHeads
}

func (c cell) headWidth() int { return c.in / c.heads }

// keyWidth returns the length of the keys, or of the values, of all heads together.
func (c cell) keyWidth() int { return c.headWidth() * c.options.keyHeads(c.heads) }

// fedWidth returns the number of inputs of a feed-forward layer's activation, including gates.
func (c cell) fedWidth() int {
	if c.options.Gated {
		return 2 * c.units
	}
	return c.units
}

// frequencies returns the angles by which one position rotates the pairs of a head, in radians and
// in float32, as the models were trained.
func (c cell) frequencies() []float32 {
	theta, pairs := c.options.Theta, make([]float32, c.options.Rotary/2)
	if theta == 0 {
		theta = 10_000
	}
	for i := range pairs {
		pairs[i] = float32(1 / math.Pow(theta, float64(2*i)/float64(c.options.Rotary)))
	}
	return pairs
}

// turn sets dst, [2, pairs], to the cosines and sines of the angles at a position.
func turn(dst, frequencies []float32, at int) {
	for i, f := range frequencies {
		sin, cos := math.Sincos(float64(float32(at) * f))
		dst[i], dst[i+len(frequencies)] = float32(cos), float32(sin)
	}
}

// rotate rotates the leading elements of every head of width size by the cosines and sines from
// turn.
func rotate(heads, turns []float32, size int) {
	pairs := len(turns) / 2
	for at := 0; at < len(heads) && pairs > 0; at += size {
		first, second := heads[at:at+pairs], heads[at+pairs:at+2*pairs]
		for i := range pairs {
			x, y, cos, sin := first[i], second[i], turns[i], turns[i+pairs]
			first[i] = float32(x*cos) - float32(y*sin)
			second[i] = float32(y*cos) + float32(x*sin)
		}
	}
}

// activate replaces the first units of a row of the feed-forward layer by its hidden values. scratch
// has units elements.
func (b *blocks) activate(hidden, scratch []float32) {
	x := hidden[:b.units]
	switch b.options.Activation {
	case ExactGELU:
		for i, v := range x {
			x[i] = float32(0.5 * float64(v) * (1 + math.Erf(float64(v)/math.Sqrt2)))
		}
	case SiLU:
		kernels.Sigmoid(scratch, x)
		kernels.Mul(x, x, scratch)
	default:
		kernels.GELU(x, x)
	}
	if b.options.Gated {
		kernels.Mul(x, x, hidden[b.units:])
	}
}

// normalize sets the rows of dst to the normalised rows of x, multiplied by scale, plus shift. Sums are in float64.
func (b *blocks) normalize(dst, x, scale, shift []float32) {
	epsilon := b.options.Epsilon
	if epsilon == 0 {
		epsilon = normEpsilon
	}
	if !b.options.RMS {
		kernels.NormalizeRows(dst, x, scale, shift, epsilon)
		return
	}
	for at := 0; at < len(x); at += b.in {
		dst, x := dst[at:at+b.in], x[at:at+b.in]
		factor := 1 / math.Sqrt(kernels.SquaredNorm(x)/float64(b.in)+epsilon)
		for i, v := range x {
			dst[i] = float32(float64(float64(v)*factor) * float64(scale[i]))
		}
	}
}
