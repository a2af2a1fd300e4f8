package checkpoints

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/storage/safetensors"
)

func small(tb testing.TB) *models.Language {
	tb.Helper()
	return must.Get(models.New(models.Config{Kind: models.GRU, Vocabulary: 5, Embedding: 2, Units: 3}))(tb)
}

func encoded(tb testing.TB, l models.Network, params []float32) []byte {
	tb.Helper()
	return must.Get(Encode(l, params, nil))(tb)
}

func TestModelRoundTrip(t *testing.T) {
	t.Parallel()
	l := small(t)
	params := l.Init(seeds.Stream(1, seeds.Weights))
	m := must.Get(Decode(encoded(t, l, params)))(t)
	if m.Network.Config() != l.Config() || !slices.Equal(m.Params, params) {
		t.Errorf("got %+v with %v", m.Network.Config(), m.Params)
	}
}

// remade is the small model's file after a change of its parts.
func remade(t *testing.T, change func(f *safetensors.File)) []byte {
	t.Helper()
	l := small(t)
	f := must.Get(safetensors.Unmarshal(encoded(t, l, make([]float32, l.Parameters()))))(t)
	change(&f)
	return must.Get(safetensors.Marshal(f.Tensors, f.Metadata))(t)
}

func TestFileOfAnotherModelIsRejected(t *testing.T) {
	t.Parallel()
	set := func(config string) func(f *safetensors.File) {
		return func(f *safetensors.File) { f.Metadata["model"] = config }
	}
	for want, change := range map[string]func(f *safetensors.File){
		`no metadata field "model"`:                     func(f *safetensors.File) { f.Metadata = nil },
		`metadata field "model": invalid character`:     set("gru"),
		`kind "bert": expected one of`:                  set(`{"kind":"bert","vocabulary":5,"embedding":2,"units":3}`),
		`tensor "embedding" has shape [5 2], want`:      set(`{"kind":"gru","vocabulary":6,"embedding":2,"units":3}`),
		`tensor "cell.input" has shape [2 9], want`:     set(`{"kind":"lstm","vocabulary":5,"embedding":2,"units":3}`),
		`no tensor "cell2.input"`:                       set(`{"kind":"gru","vocabulary":5,"embedding":2,"units":3,"layers":2}`),
		`has 7 tensors, want the 6 of a cifg-lstm`:      set(`{"kind":"cifg-lstm","vocabulary":5,"embedding":2,"units":3}`),
		`tensor "embedding" is not of 32-bit floats`:    func(f *safetensors.File) { toIntegers(f, "embedding") },
		`tensor "cell.bias" has values that are not fi`: func(f *safetensors.File) { poison(f, "cell.bias", math.NaN()) },
		`tensor "output.bias" has values that are not`:  func(f *safetensors.File) { poison(f, "output.bias", math.Inf(-1)) },
	} {
		_, err := Decode(remade(t, change))
		must.Say(t, err, want)
	}
}

func toIntegers(f *safetensors.File, name string) {
	for i, t := range f.Tensors {
		if t.Name == name {
			f.Tensors[i].Float32, f.Tensors[i].Int64 = nil, make([]int64, len(t.Float32))
		}
	}
}

func poison(f *safetensors.File, name string, value float64) {
	for i, t := range f.Tensors {
		if t.Name == name {
			f.Tensors[i].Float32 = slices.Clone(t.Float32)
			f.Tensors[i].Float32[1] = float32(value)
		}
	}
}

// Not parallel: it counts the allocations of the whole process.
func TestDecodeAllocatesNothingForClaimedParameters(t *testing.T) {
	config := fmt.Sprintf(`{"kind":"gru","vocabulary":%d,"embedding":100,"units":3}`, models.MaxParameters/128)
	data := remade(t, func(f *safetensors.File) { f.Metadata["model"] = config })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Decode(data)
	runtime.ReadMemStats(&after)
	must.Say(t, err, `tensor "embedding" has shape [5 2]`)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes allocated for a file of %d", n, len(data))
	}
}

// An accepted file is a model, and encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	l := small(f)
	f.Add(encoded(f, l, l.Init(seeds.Stream(1, seeds.Weights))))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Decode(encoded(t, m.Network, m.Params))
		if err != nil || again.Network.Config() != m.Network.Config() || !slices.Equal(again.Params, m.Params) {
			t.Fatalf("written and read again it is another model (%v)", err)
		}
	})
}
