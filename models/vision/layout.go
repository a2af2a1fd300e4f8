package vision

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"coalmine/models"
)

// layout names the tensors of a flat vector, one after the other.
type layout struct {
	tensors []models.Tensor
	size    int
}

// span is a part of the flat vector.
type span struct{ from, to int }

func (s span) of(flat []float32) []float32 { return flat[s.from:s.to:s.to] }

func (l *layout) add(name string, shape ...int) span {
	t := models.Tensor{Name: name, Shape: shape, Offset: l.size}
	l.tensors = append(l.tensors, t)
	l.size += t.Size()
	return span{t.Offset, l.size}
}

// append lays another layout out behind this one.
func (l *layout) append(other layout) {
	for _, t := range other.tensors {
		t.Offset += l.size
		l.tensors = append(l.tensors, t)
	}
	l.size += other.size
}

// clone copies the tensors for a caller, who may change them.
func (l *layout) clone() []models.Tensor {
	tensors := slices.Clone(l.tensors)
	for i := range tensors {
		tensors[i].Shape = slices.Clone(tensors[i].Shape)
	}
	return tensors
}

// Suffixes of tensor names, which determine their initial values.
const (
	kernelName   = ".kernel"
	biasName     = ".bias"
	betaName     = ".beta"
	meanName     = ".mean"
	varianceName = ".variance"
	shareName    = ".initial_share"
)

// initialize draws the kernels, tensor after tensor, one number an element: uniform in
// ±sqrt(6/(in+out)), where in and out are the last two sizes times the positions of a
// filter (Glorot and Bengio 2010, equation 16, as TensorFlow counts convolutions).
// Variances, and their share in themselves, begin at 1; biases, betas and means at 0. These
// are the defaults of TensorFlow's layers, which the authors use.
func (l *layout) initialize(rng *rand.Rand) []float32 {
	params := make([]float32, l.size)
	for _, t := range l.tensors {
		switch values := t.View(params); {
		case strings.HasSuffix(t.Name, kernelName):
			fillUniform(rng, values, glorot(t.Shape))
		case strings.HasSuffix(t.Name, varianceName), strings.HasSuffix(t.Name, shareName):
			fill(values, 1)
		}
	}
	return params
}

func glorot(shape []int) float64 {
	places := 1
	for _, n := range shape[:len(shape)-2] {
		places *= n
	}
	return math.Sqrt(6 / float64(places*(shape[len(shape)-2]+shape[len(shape)-1])))
}

func fillUniform(rng *rand.Rand, x []float32, bound float64) {
	for i := range x {
		x[i] = float32(bound * (2*rng.Float64() - 1))
	}
}

func fill(x []float32, value float32) {
	for i := range x {
		x[i] = value
	}
}

// grow returns n floats with undefined content, in buffer if it has room.
func grow(buffer []float32, n int) []float32 {
	if cap(buffer) < n {
		return make([]float32, n)
	}
	return buffer[:n]
}

// part returns rows from..to of a matrix with a number of columns.
func part(x []float32, from, to, columns int) []float32 {
	return x[from*columns : to*columns : to*columns]
}
