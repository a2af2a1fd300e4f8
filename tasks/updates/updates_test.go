package updates_test

import (
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/updates"
)

func TestShardRoundTrip(t *testing.T) {
	t.Parallel()
	layout := updates.Layout{Layers: []updates.Layer{{Name: "a", Values: 2}, {Name: "b", Values: 1}}}
	e := must.Get(updates.NewEncoder(layout))(t)
	put := []updates.Update{{Round: 1, Device: 4, Values: []float32{1, -2, 3}}, {Round: 2, Device: 0, Values: []float32{0, 5, -6}}}
	for _, u := range put {
		must.Do(t, e.Add(u))
	}
	s := must.Get(updates.Decode(e.Bytes()))(t)
	if !slices.Equal(s.Layout.Layers, layout.Layers) || s.Len() != len(put) {
		t.Fatalf("layout %v with %d updates, want %v with %d", s.Layout, s.Len(), layout, len(put))
	}
	for i, want := range put {
		if got := s.At(i); got.Round != want.Round || got.Device != want.Device || !slices.Equal(got.Values, want.Values) {
			t.Errorf("update %d is %v, want %v", i, got, want)
		}
	}
	if err := e.Add(updates.Update{Values: []float32{1}}); err == nil {
		t.Error("an update of another length was taken")
	}
}

func TestHalfPrecisionKeepsElevenBits(t *testing.T) {
	t.Parallel()
	put := []float32{0, 1, -1.0009766, 0.3333, 65504, 1e6, -1e6, 6e-8, 1e-9}
	want := []float32{0, 1, -1.0009766, 0.33325195, 65504, 65504, -65504, 5.9604645e-08, 0}
	e := must.Get(updates.NewEncoder(updates.Layout{Layers: []updates.Layer{{Name: "a", Values: len(put)}}, Precision: updates.Float16}))(t)
	must.Do(t, e.Add(updates.Update{Round: 1, Device: 2, Values: put}))
	s := must.Get(updates.Decode(e.Bytes()))(t)
	if got := s.At(0).Values; !slices.Equal(got, want) {
		t.Errorf("%v became %v, want %v", put, got, want)
	}
	if _, err := updates.NewEncoder(updates.Layout{Precision: "float8"}); err == nil {
		t.Error("a precision that there is not was taken")
	}
}

func FuzzDecode(f *testing.F) {
	e := must.Get(updates.NewEncoder(updates.Layout{Layers: []updates.Layer{{Name: "a", Values: 1}}}))(f)
	f.Add(slices.Clone(e.Bytes()))
	must.Do(f, e.Add(updates.Update{Round: 1, Values: []float32{2}}))
	f.Add(e.Bytes())
	f.Add([]byte("coalmine updates 1\n\x42{\"layers\":[{\"name\":\"a\",\"values\":1000000000}],\"precision\":\"float16\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := updates.Decode(data)
		if err != nil {
			return
		}
		for i := range s.Len() {
			s.At(i)
		}
	})
}

var model = updates.Layout{Layers: []updates.Layer{
	{Name: "embedding", Values: 6}, {Name: "cell.input", Values: 4}, {Name: "cell.bias", Values: 2}, {Name: "cell2.input", Values: 3},
}}

func TestLayersAreNamedByTensorOrByUnit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names string
		want  []updates.Span
	}{
		{"", []updates.Span{{0, 6}, {6, 10}, {10, 12}, {12, 15}}},
		{"cell", []updates.Span{{6, 10}, {10, 12}}},
		{"cell2 embedding", []updates.Span{{0, 6}, {12, 15}}},
		{"cell.bias", []updates.Span{{10, 12}}},
	} {
		if got, err := model.Spans(strings.Fields(c.names)...); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q stands for %v (%v), want %v", c.names, got, err, c.want)
		}
	}
}

func TestSpansRejectUnknownAndRepeatedLayers(t *testing.T) {
	t.Parallel()
	for names, want := range map[string]string{
		"dense":          `no layer "dense"; expected one of embedding, cell.input, cell.bias, cell2.input`,
		"cel":            `no layer "cel"`,
		"cell.bias cell": `layer "cell.bias" is named twice, by "cell" the second time`,
	} {
		if _, err := model.Spans(strings.Fields(names)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", names, err, want)
		}
	}
}
