package vision

import (
	"math"
	"math/rand/v2"
	"strings"

	"coalmine/models"
)

// Suffixes of tensor names, which determine their initial values.
const (
	kernelName   = ".kernel"
	biasName     = ".bias"
	betaName     = ".beta"
	meanName     = ".mean"
	varianceName = ".variance"
	shareName    = ".initial_share"
)

// initialize draws the kernels, tensor after tensor, one number per element: uniform in
// ±sqrt(6/(in+out)), where in and out are the last two sizes times the positions of a filter
// (Glorot and Bengio 2010, equation 16, as TensorFlow counts convolutions). Variances and their
// initial share start at 1; biases, betas and means at 0. These are the defaults of TensorFlow's
// layers, which the authors use.
func initialize(l *models.Layout, rng *rand.Rand) []float32 {
	params := make([]float32, l.Parameters())
	for _, t := range l.Tensors() {
		switch values := t.View(params); {
		case strings.HasSuffix(t.Name, kernelName):
			models.FillUniform(rng, values, glorot(t.Shape))
		case strings.HasSuffix(t.Name, varianceName), strings.HasSuffix(t.Name, shareName):
			models.Fill(values, 1)
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

// grow returns n elements with arbitrary values, in buffer if it has room.
func grow[T any](buffer []T, n int) []T {
	if cap(buffer) < n {
		return make([]T, n)
	}
	return buffer[:n]
}

// part returns rows from..to of a matrix with a number of columns.
func part(x []float32, from, to, columns int) []float32 {
	return x[from*columns : to*columns : to*columns]
}
