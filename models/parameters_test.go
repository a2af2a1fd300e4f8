package models

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/seeds"
)

func TestTensorsFillTheFlatVector(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 11, 5, 7)
	want := []struct {
		name  string
		shape []int
	}{
		{"embedding", []int{11, 5}}, {"cell.input", []int{5, 21}}, {"cell.recurrent", []int{5, 21}},
		{"cell.bias", []int{21}}, {"projection", []int{7, 5}}, {"output.bias", []int{11}},
	}
	offset := 0
	for i, tensor := range m.Tensors() {
		if tensor.Name != want[i].name || !slices.Equal(tensor.Shape, want[i].shape) || tensor.Offset != offset {
			t.Errorf("tensor %d is %v at %d, want %v at %d", i, tensor, tensor.Offset, want[i], offset)
		}
		offset += tensor.Size()
	}
	if offset != m.Parameters() {
		t.Errorf("the tensors have %d elements, the model %d", offset, m.Parameters())
	}
}

func TestTensorsAreCopies(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 11, 5, 7)
	m.Tensors()[0].Shape[0] = 1
	if got := m.Tensors()[0].Shape[0]; got != 11 {
		t.Errorf("a caller changed the layout: %d rows", got)
	}
}

func TestPaperModelHasItsSize(t *testing.T) {
	t.Parallel()
	// Embedding 96, 670 units, 10,000 words and 4 special tokens: the model of
	// Thakkar et al. (2020), section 4.1.
	m := mustNew(t, 10004, 96, 670)
	if got, want := m.Parameters(), 10004*96+2*96*2010+2010+670*96+10004; got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
}

func TestViewsShareMemory(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 11, 5, 7)
	params := make([]float32, m.Parameters())
	for i, tensor := range m.Tensors() {
		for j := range tensor.View(params) {
			tensor.View(params)[j] = float32(i)
		}
	}
	w := m.layout.views(params)
	l := &w.layers[0]
	for i, view := range [][]float32{w.embedding, l.input, l.recurrent, l.bias, l.projection, w.outputBias} {
		if view[0] != float32(i) || view[len(view)-1] != float32(i) {
			t.Errorf("view %d is not tensor %d", i, i)
		}
	}
}

func TestInitialParametersFollowTheSeedAlone(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 50, 8, 12)
	one, again := m.Init(seeds.Stream(1, seeds.Weights)), m.Init(seeds.Stream(1, seeds.Weights))
	other := m.Init(seeds.Stream(2, seeds.Weights))
	if !slices.Equal(one, again) {
		t.Error("one seed gave two models")
	}
	if slices.Equal(one, other) {
		t.Error("two seeds gave one model")
	}
	// Every later result depends on these bytes: a change of them needs a new
	// version of the kinds that draw them.
	const golden = "6753b6dad37e5438"
	if got := digest(one); got != golden {
		t.Errorf("digest of the initial parameters %s, want %s", got, golden)
	}
}

func digest(x []float32) string {
	h := sha256.New()
	for _, v := range x {
		var b [4]byte
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func TestInitialParametersStayInTheirBounds(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 500, 24, 36)
	w := m.layout.views(m.Init(testRand(1)))
	l := &w.layers[0]
	glorot := math.Sqrt(6.0 / (24 + 36))
	for _, c := range []struct {
		name  string
		x     []float32
		bound float64
	}{{"embedding", w.embedding, math.Sqrt(3.0 / 24)}, {"input", l.input, glorot}, {"recurrent", l.recurrent, glorot}, {"projection", l.projection, glorot}} {
		// At least 864 draws each: none above 0.9 of the bound in size has
		// probability 0.9^864 < 1e-39.
		if got := largest(c.x); got > c.bound*(1+1e-6) || got < 0.9*c.bound {
			t.Errorf("%s: largest %v, want just under %v", c.name, got, c.bound)
		}
	}
	for j, b := range l.bias {
		want := float32(0)
		if j < 36 {
			want = -1
		}
		if b != want {
			t.Fatalf("gate bias %d is %v, want %v", j, b, want)
		}
	}
	if largest(w.outputBias) != 0 {
		t.Error("the output bias does not start at zero")
	}
}

func TestValidateNamesEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Kind: "rnn", Vocabulary: 1, Embedding: 0, Units: 1 << 20})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`kind "rnn": expected one of cifg-lstm`, "vocabulary 1:", "embedding 0:", "units 1048576:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not contain %q", err, want)
		}
	}
	if _, err := New(Config{Kind: CIFGLSTM, Vocabulary: 1 << 24, Embedding: 1 << 16, Units: 1}); err == nil || !strings.Contains(err.Error(), "parameters") {
		t.Errorf("an impossible size gives %v", err)
	}
}

func TestPackedBatchHoldsEveryTargetOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rng := testRand(seed)
		sentences := mixedSentences(rng, 1000, 1+rng.IntN(12), 10)
		var p packed
		p.pack(sentences)
		rows := 0
		for rank, i := range p.order {
			s := sentences[i]
			for at := range len(s) - 1 {
				if rank >= p.active(at) {
					t.Fatalf("seed %d: sentence %d is not active at step %d", seed, i, at)
				}
				if r := p.start[at] + rank; p.inputs[r] != s[at] || p.targets[r] != s[at+1] {
					t.Fatalf("seed %d: row %d is %d -> %d, want %d -> %d", seed, r, p.inputs[r], p.targets[r], s[at], s[at+1])
				}
				rows++
			}
		}
		if rows != p.rows() || rows != len(p.targets) {
			t.Fatalf("seed %d: %d rows for %d targets", seed, p.rows(), rows)
		}
	}
}
