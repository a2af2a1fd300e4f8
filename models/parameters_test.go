package models

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
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
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Fatalf("error %v, want one of one line", err)
	}
	for _, want := range []string{`kind "rnn": expected one of cifg-lstm, lstm, gru`, "vocabulary 1:", "embedding 0:", "units 1048576:"} {
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

func TestEveryKindOfCellIsDescribed(t *testing.T) {
	t.Parallel()
	for _, k := range CellKinds() {
		if k.Summary == "" || k.Source == "" || !k.attends && (k.gatesPerUnit < 1 || k.initialize == nil || k.forward == nil || k.backward == nil) {
			t.Errorf("the entry of %s lacks a summary, a source, its gates or a function", k.Kind)
		}
		if k.coarse && k.edge == nil {
			t.Errorf("the entry of %s has coarse bounds, which follow its cell along an edge, but no such cell", k.Kind)
		}
	}
}

func TestAnExternalNetworkHasTheTensorsOfItsOutline(t *testing.T) {
	t.Parallel()
	shapes := []Shape{{Name: "b", Shape: []int{2, 3}}, {Name: "a.scale"}, {Name: "a", Shape: []int{4}}}
	outline := must.Get(OutlineOf(shapes))(t)
	n := must.Get(NewExternal(Config{Kind: External, Outline: outline}))(t)
	if n.Parameters() != 11 || n.Trained() != 11 || len(n.Init(rand.New(rand.NewPCG(1, 2)))) != 11 {
		t.Errorf("%d parameters, want 11", n.Parameters())
	}
	offset := 0
	for i, tensor := range n.Tensors() {
		if tensor.Name != shapes[i].Name || !slices.Equal(tensor.Shape, shapes[i].Shape) || tensor.Offset != offset {
			t.Errorf("tensor %d is %+v, want %+v at %d", i, tensor, shapes[i], offset)
		}
		offset += tensor.Size()
	}
	shapes[1].Frozen, shapes[2].Frozen = true, true
	frozen := must.Get(NewExternal(Config{Kind: External, Outline: must.Get(OutlineOf(shapes))(t)}))(t)
	if trained := TrainedTensors(frozen); frozen.Trained() != 6 || len(trained) != 1 || trained[0].Name != "b" {
		t.Errorf("%d trained parameters, of %v, want the 6 of b", frozen.Trained(), trained)
	}
	if _, err := n.NewLearner(nil).Gradient(nil, nil, nil); err == nil {
		t.Error("a network that is not ours has a gradient")
	}
}

func TestOutlineRejectsBadShapes(t *testing.T) {
	t.Parallel()
	for want, shapes := range map[string][]Shape{
		"a network of 0 tensors":         {},
		`a tensor is named ""`:           {{Name: "", Shape: []int{1}}},
		`a tensor is named "__metadata_`: {{Name: "__metadata__", Shape: []int{1}}},
		"has the shape [2 0]":            {{Name: "a", Shape: []int{2, 0}}},
		"has the shape [65536 65536]":    {{Name: "a", Shape: []int{1 << 16, 1 << 16}}},
		"more than 2147483647 parameter": {{Name: "a", Shape: []int{1 << 30}}, {Name: "b", Shape: []int{1 << 30}}},
		`two tensors are named "a"`:      {{Name: "a", Shape: []int{1}}, {Name: "a", Shape: []int{1}}},
		`"a" is trained and follows`:     {{Name: "c", Shape: []int{1}}, {Name: "b", Shape: []int{1}, Frozen: true}, {Name: "a", Shape: []int{1}}},
		`"b", the first, is frozen`:      {{Name: "b", Shape: []int{1}, Frozen: true}, {Name: "a", Shape: []int{1}}},
		"has 9 dimensions":               {{Name: "a", Shape: []int{1, 1, 1, 1, 1, 1, 1, 1, 1}}},
	} {
		_, err := OutlineOf(shapes)
		must.Say(t, err, want)
	}
	for want, config := range map[string]Config{
		"has an outline and nothing else": {Kind: External, Outline: `[{"name":"a","shape":[1]}]`, Units: 3},
		"outline of a network":            {Kind: External, Outline: "a 1"},
	} {
		_, err := NewExternal(config)
		must.Say(t, err, want)
	}
}

func TestQuantizedTensorsAreTheNearestMultiplesOfTheirStep(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{2, 3, 8} {
		eachVariant(t, 40, func(t *testing.T, m *Language) {
			params := wideParams(m, testRand(71))
			quantized := slices.Clone(params)
			check(t, Quantize(m, quantized, bits))
			levels := math.Exp2(float64(bits-1)) - 1
			for _, tensor := range m.Tensors() {
				before, after := tensor.View(params), tensor.View(quantized)
				step := largest(before) / levels
				for i, v := range after {
					multiple := float64(v) / step
					if math.Abs(multiple-math.Round(multiple)) > 1e-3 || math.Abs(multiple) > levels+1e-3 {
						t.Fatalf("%v element %d in %d bits: %v is %v steps of %v", tensor, i, bits, v, multiple, step)
					}
					if off := math.Abs(float64(v) - float64(before[i])); off > step*0.5001 {
						t.Fatalf("%v element %d in %d bits: %v became %v, %v steps away", tensor, i, bits, before[i], v, off/step)
					}
				}
				if largest(after) != largest(before) {
					t.Errorf("%v in %d bits: the largest magnitude was %v and is %v", tensor, bits, largest(before), largest(after))
				}
			}
		})
	}
}

func TestQuantizationRoundsHalvesToEvenAndKeepsZero(t *testing.T) {
	t.Parallel()
	values := []float32{3, 0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.4}
	quantize(values, 3) // 3 bits: steps of 1
	if want := []float32{3, 0, 0, 2, 2, 0, -2, -2}; !slices.Equal(values, want) {
		t.Errorf("%v, want %v", values, want)
	}
	zeros := make([]float32, 3)
	if quantize(zeros, 127); !slices.Equal(zeros, make([]float32, 3)) {
		t.Errorf("zeros became %v", zeros)
	}
}

func TestQuantizationIsIdempotent(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 40, 5, 7)
	params := wideParams(m, testRand(72))
	check(t, Quantize(m, params, 8))
	again := slices.Clone(params)
	check(t, Quantize(m, again, 8))
	if !slices.Equal(again, params) {
		t.Error("a quantized model changed when it was quantized once more")
	}
}

func TestQuantizeRejectsBadBitsAndShapes(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 9, 3, 4)
	params := make([]float32, m.Parameters())
	for _, bits := range []int{-1, 0, 1, 9} {
		must.Say(t, Quantize(m, params, bits), "want 2 to 8")
	}
	must.Say(t, Quantize(m, params[1:], 8), "the parameter vector has")
}
