package models

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"coalmine/internal/kernels"
)

// Adapters adds to matrices of a Transformer products of two factors, A B. Only the factors are
// trained; all other parameters are frozen (Hu et al., "LoRA: Low-Rank Adaptation of Large Language
// Models", 2021, section 4.1). The model computes with W + Alpha/Rank A B in place of W. The zero
// value has no adapters.
//
// The factors are the first tensors of the flat vector. Those of attention.query are
// attention.query_a [rows, rank] and attention.query_b [rank, columns], the transposes of the
// paper's A and B, because a row vector is multiplied from the right.
type Adapters struct {
	// Rank is the number of columns of A and of rows of B, at most that of the matrices.
	Rank int `json:"rank,omitempty"`
	// Alpha is the numerator of the products' scale. 0 means Rank: a scale of 1.
	Alpha float64 `json:"alpha,omitempty"`
	// Matrices are names of AdaptedMatrix, separated by commas in the order of its Choices. ""
	// means DefaultAdapted.
	Matrices string `json:"matrices,omitempty"`
}

// AdaptedMatrix names a matrix with an adapter, in every block.
type AdaptedMatrix string

// DefaultAdapted are the matrices that Hu et al. adapt in most experiments (section 5.1).
var DefaultAdapted = []AdaptedMatrix{"attention.query", "attention.value"}

// adaptable are the matrices that can have adapters.
var adaptable = []struct {
	name AdaptedMatrix
	// tensor has the matrix, in columns from first on.
	tensor string
	size   func(c cell) (rows, first, columns int)
}{
	{"attention.query", "attention.input", func(c cell) (int, int, int) { return c.in, 0, c.in }},
	{"attention.key", "attention.input", func(c cell) (int, int, int) { return c.in, c.in, c.keyWidth() }},
	{"attention.value", "attention.input", func(c cell) (int, int, int) { return c.in, c.in + c.keyWidth(), c.keyWidth() }},
	{"attention.output", "attention.output", func(c cell) (int, int, int) { return c.in, 0, c.in }},
	{"feed.input", "feed.input", func(c cell) (int, int, int) { return c.in, 0, c.fedWidth() }},
	{"feed.output", "feed.output", func(c cell) (int, int, int) { return c.units, 0, c.in }},
}

// Choices lists the matrices that can have adapters.
func (AdaptedMatrix) Choices() []string {
	names := make([]string, len(adaptable))
	for i, m := range adaptable {
		names[i] = string(m.name)
	}
	return names
}

// NewAdapters returns adapters without the fields that equal their defaults, so that each model has
// one identity. Without matrices it takes DefaultAdapted.
func NewAdapters(rank int, alpha float64, matrices []AdaptedMatrix) Adapters {
	a := Adapters{Rank: rank, Alpha: alpha}
	if alpha == float64(rank) {
		a.Alpha = 0
	}
	if len(matrices) == 0 {
		return a
	}
	order := func(list []AdaptedMatrix) string {
		var names []string
		for _, name := range AdaptedMatrix("").Choices() {
			if slices.Contains(list, AdaptedMatrix(name)) {
				names = append(names, name)
			}
		}
		return strings.Join(names, ",")
	}
	if list := order(matrices); list != order(DefaultAdapted) {
		a.Matrices = list
	}
	return a
}

func (a Adapters) names() []AdaptedMatrix {
	if a.Matrices == "" {
		return DefaultAdapted
	}
	var names []AdaptedMatrix
	for name := range strings.SplitSeq(a.Matrices, ",") {
		names = append(names, AdaptedMatrix(name))
	}
	return names
}

// scale is the factor of the products.
func (a Adapters) scale() float32 {
	if a.Alpha == 0 {
		return 1
	}
	return float32(a.Alpha / float64(a.Rank))
}

func (a Adapters) validate(problems *[]error, c cell) {
	if !(a.Alpha >= 0) || math.IsInf(a.Alpha, 1) {
		*problems = append(*problems, fmt.Errorf("adapters: alpha %v: want a positive number, or 0 for the rank", a.Alpha))
	}
	known, names := AdaptedMatrix("").Choices(), a.names()
	for i, name := range names {
		if !slices.Contains(known, string(name)) || slices.Contains(names[:i], name) {
			*problems = append(*problems, fmt.Errorf("adapters: matrix %q: want some of %s, each once", name, strings.Join(known, ", ")))
		}
	}
	for _, m := range adaptable {
		rows, _, columns := m.size(c)
		if most := min(rows, columns); slices.Contains(names, m.name) && (a.Rank < 1 || a.Rank > most) {
			*problems = append(*problems, fmt.Errorf("adapters: rank %d: want 1 to %d, the largest rank of %s [%d, %d]", a.Rank, most, m.name, rows, columns))
			return
		}
	}
}

// adapter places the factors of one matrix of one block.
type adapter struct {
	a, b Span
	// tensor names the tensor with the matrix, in columns from first on; matrix is its place.
	tensor               string
	matrix               Span
	rows, first, columns int
}

func (l *layout) addAdapters(c Config) {
	if c.Adapters == (Adapters{}) {
		return
	}
	shape, names := cellsOf(c)[0], c.Adapters.names()
	for block := range shape.blocks {
		for _, m := range adaptable {
			if !slices.Contains(names, m.name) {
				continue
			}
			x := adapter{tensor: layerTensor(m.tensor, block)}
			x.rows, x.first, x.columns = m.size(shape)
			name := layerTensor(string(m.name), block)
			x.a = l.Add(name+"_a", x.rows, c.Adapters.Rank)
			x.b = l.Add(name+"_b", c.Adapters.Rank, x.columns)
			l.adapters = append(l.adapters, x)
		}
	}
}

// placeAdapters finds the adapted matrices, once they are placed.
func (l *layout) placeAdapters() {
	for i := range l.adapters {
		x := &l.adapters[i]
		at := l.tensors[slices.IndexFunc(l.tensors, func(t Tensor) bool { return t.Name == x.tensor })]
		x.matrix = Span{at.Offset, at.Offset + at.Size()}
	}
}

// initializeAdapters draws each A normal with variance 1/rows. B is zero, so that the model begins as
// the frozen one.
func (l *layout) initializeAdapters(rng *rand.Rand, flat []float32) {
	for _, x := range l.adapters {
		a, deviation := x.a.Of(flat), 1/math.Sqrt(float64(x.rows))
		for i := range a {
			a[i] = float32(deviation * rng.NormFloat64())
		}
	}
}

// merging is a source that adds the products of the adapters to the matrices that it lends.
type merging struct {
	source
	adapters []adapter
	scale    float32
	lent     []float32
}

// merge returns a source of the weights that the model computes with.
func (m *Language) merge(from source) source {
	if len(m.layout.adapters) == 0 {
		return from
	}
	return &merging{source: from, adapters: m.layout.adapters, scale: m.config.Adapters.scale()}
}

func (s *merging) lend(at Span) []float32 {
	s.lent = append(s.lent[:0], s.source.lend(at)...)
	for _, x := range s.adapters {
		if x.matrix != at {
			continue
		}
		a, b, wide := s.keep(x.a), s.keep(x.b), len(s.lent)/x.rows
		rank := len(a) / x.rows
		kernels.Gemm(false, false, x.rows, x.columns, rank, s.scale, a, rank, b, x.columns, 1, s.lent[x.first:], wide)
	}
	return s.lent
}
