package towers

import (
	"errors"
	"math/rand/v2"

	"coalmine/internal/kernels"
)

// Shared is a network with several tasks: one tower, and for each task a layer of its classes
// with a softmax on top (Caruana 1997; Orekondy et al. 2018, figure 3d). With one task it is a
// plain classifier.
type Shared struct {
	trunk *Tower
	heads []*Tower
}

// NewShared is a network of tasks with so many classes, each at least 1, on a tower.
func NewShared(trunk *Tower, classes ...int) (*Shared, error) {
	if len(classes) == 0 {
		return nil, errors.New("network without a task: want one at least")
	}
	n := &Shared{trunk: trunk}
	for _, c := range classes {
		head, err := NewTower(trunk.Outputs(), c)
		if err != nil {
			return nil, err
		}
		head.linear = true
		n.heads = append(n.heads, head)
	}
	return n, nil
}

// Parameters is the length of the flat vector: the tower, and then the layer of each task.
func (n *Shared) Parameters() int {
	size := n.trunk.Parameters()
	for _, h := range n.heads {
		size += h.Parameters()
	}
	return size
}

// Init draws parameters as Tower.Init does.
func (n *Shared) Init(rng *rand.Rand) []float32 {
	params := make([]float32, n.Parameters())
	n.trunk.Init(rng, params)
	at := n.trunk.Parameters()
	for _, h := range n.heads {
		h.Init(rng, params[at:])
		at += h.Parameters()
	}
	return params
}

// SharedTrainer computes logits and gradients of batches.
type SharedTrainer struct {
	network *Shared
	trunk   *pass
	heads   []*pass
	// Gradients with respect to the trunk's outputs: of one task, and of all.
	part, sum []float32
	logits    [][]float32
	errors    []float32
}

// NewTrainer has the memory of batches of up to so many vectors.
func (n *Shared) NewTrainer(batch int) *SharedTrainer {
	t := &SharedTrainer{network: n, trunk: n.trunk.newPass(batch), part: make([]float32, batch*n.trunk.Outputs()), sum: make([]float32, batch*n.trunk.Outputs())}
	most := 0
	for _, h := range n.heads {
		t.heads = append(t.heads, h.newPass(batch))
		most = max(most, h.Outputs())
	}
	t.logits, t.errors = make([][]float32, len(n.heads)), make([]float32, batch*most)
	return t
}

// Logits of x [rows, inputs], for each task [rows, classes]. They are overwritten by the next
// call.
func (t *SharedTrainer) Logits(params, x []float32, rows int) [][]float32 {
	hidden := t.trunk.forward(params, x, rows)
	at := t.network.trunk.Parameters()
	for i, h := range t.heads {
		t.logits[i] = h.forward(params[at:], hidden, rows)
		at += h.tower.Parameters()
	}
	return t.logits
}

// Gradient writes to gradient that of the sum over tasks of the mean cross-entropy of some
// vectors, and returns the loss in nats. labels has those of each task; a negative one says
// that the task knows nothing of the vector.
func (t *SharedTrainer) Gradient(params, x []float32, rows int, labels [][]int, gradient []float32) (loss float64) {
	t.Logits(params, x, rows)
	hidden := t.trunk.outs[len(t.trunk.outs)-1]
	sum, part := t.sum[:rows*t.network.trunk.Outputs()], t.part[:rows*t.network.trunk.Outputs()]
	clear(sum)
	at := t.network.trunk.Parameters()
	for i, h := range t.heads {
		end := at + h.tower.Parameters()
		loss += t.crossEntropy(t.logits[i], labels[i], rows)
		h.backward(params[at:end], hidden, t.errors[:rows*h.tower.Outputs()], gradient[at:end], part)
		kernels.Add(sum, part)
		at = end
	}
	t.trunk.backward(params, x, sum, gradient, nil)
	return loss
}

// crossEntropy is the loss of one task; errors becomes its gradient with respect to the
// logits, which it overwrites.
func (t *SharedTrainer) crossEntropy(logits []float32, labels []int, rows int) (loss float64) {
	classes := len(logits) / rows
	for i, label := range labels {
		row, errors := logits[i*classes:(i+1)*classes], t.errors[i*classes:(i+1)*classes]
		if label < 0 {
			clear(errors)
			continue
		}
		top := kernels.Max(row)
		total := kernels.ExpSum(errors, row, top)
		loss += (kernels.LogFloat64(total) + float64(top) - float64(row[label])) / float64(rows)
		kernels.Scale(float32(1/(total*float64(rows))), errors)
		errors[label] -= 1 / float32(rows)
	}
	return loss
}
