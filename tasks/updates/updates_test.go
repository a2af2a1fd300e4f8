package updates_test

import (
	"slices"
	"testing"

	"coalmine/tasks/updates"
)

func TestAShardGivesWhatWasPutIn(t *testing.T) {
	t.Parallel()
	layout := updates.Layout{Layers: []updates.Layer{{Name: "a", Values: 2}, {Name: "b", Values: 1}}}
	e, err := updates.NewEncoder(layout)
	if err != nil {
		t.Fatal(err)
	}
	put := []updates.Update{{Round: 1, Device: 4, Values: []float32{1, -2, 3}}, {Round: 2, Device: 0, Values: []float32{0, 5, -6}}}
	for _, u := range put {
		if err := e.Add(u); err != nil {
			t.Fatal(err)
		}
	}
	s, err := updates.Decode(e.Bytes())
	if err != nil {
		t.Fatal(err)
	}
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

func FuzzDecode(f *testing.F) {
	e, err := updates.NewEncoder(updates.Layout{Layers: []updates.Layer{{Name: "a", Values: 1}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(slices.Clone(e.Bytes()))
	if err := e.Add(updates.Update{Round: 1, Values: []float32{2}}); err != nil {
		f.Fatal(err)
	}
	f.Add(e.Bytes())
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
