package towers

import (
	"math"
	"math/rand/v2"

	"coalmine/internal/kernels"
)

// Pairs is a network that tells whether two vectors belong together: with what a tower makes
// of each, u and v, the logit is the inner product of |u - v| with weights, plus a bias. Where
// both are of one sort the towers share their parameters: a Siamese network (Orekondy et al.
// 2018, figures 3b and 3c).
type Pairs struct {
	first, second *Tower // the same where they are shared
}

// NewPairs is a network on two towers with outputs of one width. The same tower twice shares
// its parameters.
func NewPairs(first, second *Tower) *Pairs { return &Pairs{first, second} }

func (n *Pairs) shared() bool { return n.first == n.second }

// Parameters is the length of the flat vector: the towers, the weights of the distance, and
// its bias.
func (n *Pairs) Parameters() int {
	size := n.first.Parameters() + n.first.Outputs() + 1
	if !n.shared() {
		size += n.second.Parameters()
	}
	return size
}

// split cuts a flat vector into its parts. Those of the towers are the same if shared.
func (n *Pairs) split(flat []float32) (first, second, distance []float32) {
	first = flat[:n.first.Parameters()]
	second = first
	if rest := flat[len(first):]; n.shared() {
		distance = rest
	} else {
		second, distance = rest[:n.second.Parameters()], rest[n.second.Parameters():]
	}
	return first, second, distance
}

// Init draws parameters as Tower.Init does, of the distance as a layer with one output.
func (n *Pairs) Init(rng *rand.Rand) []float32 {
	params := make([]float32, n.Parameters())
	first, second, distance := n.split(params)
	n.first.Init(rng, first)
	if !n.shared() {
		n.second.Init(rng, second)
	}
	(&Tower{widths: []int{n.first.Outputs(), 1}}).Init(rng, distance)
	return params
}

// Embed computes what the first tower, or the second, makes of x [rows, inputs].
func (n *Pairs) Embed(params, x []float32, rows int, second bool) []float32 {
	first, other, _ := n.split(params)
	if second {
		return n.second.newPass(rows).forward(other, x, rows)
	}
	return n.first.newPass(rows).forward(first, x, rows)
}

// Logit of two embeddings, in float64: the higher, the likelier they belong together.
func (n *Pairs) Logit(params, u, v []float32) float64 {
	_, _, distance := n.split(params)
	return n.logit(distance, u, v)
}

// PairTrainer computes gradients of batches of pairs.
type PairTrainer struct {
	network       *Pairs
	first, second *pass // one pass of twice the rows where the towers are shared
	embeddings    []float32
	gradient      []float32 // with respect to the embeddings
	logits        []float32
}

// NewTrainer has the memory of batches of up to so many pairs.
func (n *Pairs) NewTrainer(batch int) *PairTrainer {
	t := &PairTrainer{network: n, gradient: make([]float32, 2*batch*n.first.Outputs()), logits: make([]float32, batch)}
	t.embeddings = make([]float32, len(t.gradient))
	if n.shared() {
		t.first = n.first.newPass(2 * batch)
		t.first.pairs = true
	} else {
		t.first, t.second = n.first.newPass(batch), n.second.newPass(batch)
	}
	return t
}

// Gradient writes to gradient that of the mean binary cross-entropy of some pairs, and returns
// the loss in nats. x has the first vectors of all pairs and then the second ones.
func (t *PairTrainer) Gradient(params, x []float32, same []bool, gradient []float32) float64 {
	n, rows := t.network, len(same)
	first, second, distance := n.split(params)
	dFirst, dSecond, dDistance := n.split(gradient)
	at := rows * n.first.Inputs()
	if n.shared() {
		copy(t.embeddings, t.first.forward(first, x, 2*rows))
	} else {
		u := t.first.forward(first, x[:at], rows)
		copy(t.embeddings, u)
		copy(t.embeddings[len(u):], t.second.forward(second, x[at:], rows))
	}
	loss := t.distances(distance, same, dDistance)
	if half := rows * n.first.Outputs(); n.shared() {
		t.first.backward(first, x, t.gradient[:2*half], dFirst, nil)
	} else {
		t.first.backward(first, x[:at], t.gradient[:half], dFirst, nil)
		t.second.backward(second, x[at:], t.gradient[half:2*half], dSecond, nil)
	}
	return loss
}

// distances computes the loss of the embeddings, and the gradients with respect to them and
// to the distance.
func (t *PairTrainer) distances(distance []float32, same []bool, gradient []float32) (loss float64) {
	rows, width := len(same), t.network.first.Outputs()
	clear(gradient)
	for i := range same {
		u, v := t.pair(t.embeddings, i, rows, width)
		t.logits[i] = float32(t.network.logit(distance, u, v))
	}
	kernels.Sigmoid(t.logits[:rows], t.logits[:rows])
	for i, one := range same {
		p := t.logits[i]
		d := p / float32(rows)
		if one {
			d = (p - 1) / float32(rows)
			p = 1 - p
		}
		loss -= kernels.LogFloat64(math.Max(1-float64(p), math.SmallestNonzeroFloat32)) / float64(rows)
		u, v := t.pair(t.embeddings, i, rows, width)
		du, dv := t.pair(t.gradient, i, rows, width)
		for j := range u {
			difference := u[j] - v[j]
			gradient[j] += float32(d * max(difference, -difference))
			du[j], dv[j] = 0, 0
			if step := float32(d * distance[j]); difference > 0 {
				du[j], dv[j] = step, -step
			} else if difference < 0 {
				du[j], dv[j] = -step, step
			}
		}
		gradient[width] += d
	}
	return loss
}

// pair are the rows of pair i in a matrix with the first of all pairs and then the second.
func (t *PairTrainer) pair(matrix []float32, i, rows, width int) (u, v []float32) {
	return matrix[i*width : (i+1)*width], matrix[(rows+i)*width : (rows+i+1)*width]
}

// logit is Logit by the part of the parameters that is the distance's.
func (n *Pairs) logit(distance, u, v []float32) float64 {
	sum := float64(distance[len(u)])
	for i := range u {
		sum += float64(float64(distance[i]) * math.Abs(float64(u[i])-float64(v[i])))
	}
	return sum
}
