package observed_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/observed/observedtest"
	"coalmine/tasks/devices"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/updates"
)

var layout = updates.Layout{Layers: []updates.Layer{{Name: "a.x", Values: 2}, {Name: "b", Values: 1}, {Name: "a.y", Values: 1}}}

func TestAViewHasItsLayersAndALengthOfOne(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	split := []devices.Device{{User: 0, Set: devices.Seen}, {User: 0, Shadow: true, Set: devices.Seen}}
	task := g.Task(observedtest.Inputs(g, layout, split,
		[]updates.Update{{Round: 1, Device: 1, Values: []float32{3, 0, 7, 4}}},
		[]updates.Update{{Round: 2, Device: 0, Values: []float32{0, 0, 1, 0}}})...)
	r := must.Get(observed.View{Layers: []string{"a"}}.Open(t.Context(), task))(t)
	var got [][]float32
	err := r.Each(t.Context(), func(o *observed.Observation) error {
		if o.Shadow != (o.Number == 1) || o.User != 0 || o.Round != 2-o.Number {
			t.Errorf("observation %+v", o)
		}
		got = append(got, slices.Clone(o.Values))
		return nil
	})
	if err != nil || r.Values() != 3 || !slices.Equal(got[0], []float32{0.6, 0, 0.8}) || !slices.Equal(got[1], []float32{0, 0, 0}) {
		t.Errorf("values %v, error %v", got, err)
	}
}

func TestUndividedDevicesAreUsers(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	task := g.Task(observedtest.Inputs(g, layout, nil, []updates.Update{{Round: 1, Device: 7, Values: []float32{3, 0, 7, 4}}})...)
	r := must.Get(observed.View{Raw: true}.Open(t.Context(), task))(t)
	err := r.Each(t.Context(), func(o *observed.Observation) error {
		if o.User != 7 || o.Shadow || !slices.Equal(o.Values, []float32{3, 0, 7, 4}) {
			t.Errorf("observation %+v", o)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestUnreadableUpdatesAreErrors(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	nan := float32(math.NaN())
	diverged := g.Task(observedtest.Inputs(g, layout, nil, []updates.Update{{Round: 3, Device: 7, Values: []float32{nan, 0, 7, 4}}})...)
	_, err := observed.View{Layers: []string{"c"}}.Open(t.Context(), diverged)
	if err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "a.x, b, a.y") {
		t.Errorf("an unknown layer gives %v", err)
	}
	r := must.Get(observed.View{}.Open(t.Context(), diverged))(t)
	err = r.Each(t.Context(), func(*observed.Observation) error { return nil })
	if err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "device 7 in round 3 is not finite") {
		t.Errorf("an update that is no number gives %v", err)
	}
	if _, err := (observed.View{}).Open(t.Context(), g.Task()); err == nil || !strings.Contains(err.Error(), "recorded-0") {
		t.Errorf("no updates give %v", err)
	}
}

// TestSamplesAreOfAllUpdates reads a sample of updates whose first value is their number.
func TestSamplesAreOfAllUpdates(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	var list []updates.Update
	for i := range 60 {
		list = append(list, updates.Update{Round: 1 + i/10, Device: i % 10, Values: []float32{float32(i), 1, 0, 0}})
	}
	r := must.Get(observed.View{Raw: true}.Open(t.Context(), g.Task(observedtest.Inputs(g, layout, nil, list[:20], list[20:])...)))(t)
	even := func(o *observed.Observation) bool { return o.User%2 == 0 }
	counts := map[int]int{}
	for number := range 300 {
		s := must.Get(r.Sample(t.Context(), 1, number, 10, even))(t)
		if len(s.Of) != 10 || s.Values != 4 {
			t.Fatalf("%d updates of %d values, want 10 of 4", len(s.Of), s.Values)
		}
		for i, o := range s.Of {
			if n := int(s.Row(i)[0]); n != 10*(o.Round-1)+o.User || o.User%2 != 0 || o.Values != nil || i > 0 && n <= int(s.Row(i - 1)[0]) {
				t.Fatalf("row %d is update %d, said to be %+v", i, n, o)
			}
			counts[int(s.Row(i)[0])]++
		}
	}
	// Each of 30 is in a third of the samples: five standard deviations of a binomial are
	// passed with probability 6e-7.
	for n, count := range counts {
		if math.Abs(float64(count)-100) > 5*math.Sqrt(300*2.0/9) {
			t.Errorf("update %d is in %d of 300 samples of a third", n, count)
		}
	}
	if s, err := r.Sample(t.Context(), 1, 0, 1000, even); err != nil || len(s.Of) != 30 || len(s.Users()) != 5 {
		t.Errorf("all updates are %v, error %v", s, err)
	}
}

func TestCentreSubtractsRoundMean(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	list := []updates.Update{
		{Round: 2, Device: 0, Values: []float32{1, 0, 0, 4}}, {Round: 2, Device: 1, Values: []float32{3, 0, 0, 4}},
		{Round: 5, Device: 0, Values: []float32{5, 0, 0, 4}}, {Round: 7, Device: 1, Values: []float32{1, 2, 0, 4}}, {Round: 7, Device: 3, Values: []float32{1, 4, 0, 8}},
	}
	r := must.Get(observed.View{Raw: true}.Open(t.Context(), g.Task(observedtest.Inputs(g, layout, nil, list)...)))(t)
	first := must.Get(r.Sample(t.Context(), 1, 0, 10, func(o *observed.Observation) bool { return o.User == 0 }))(t)
	others := must.Get(r.Sample(t.Context(), 1, 0, 10, func(o *observed.Observation) bool { return o.User != 0 }))(t)
	must.Do(t, r.Centre(t.Context(), first, others))
	for i, want := range [][]float32{{-1, 0, 0, 0}, {0, 0, 0, 0}} {
		if got := first.Row(i); [4]float32(got) != [4]float32(want) {
			t.Errorf("row %d is %v, want %v", i, got, want)
		}
	}
	for i, want := range [][]float32{{1, 0, 0, 0}, {0, -1, 0, -2}, {0, 1, 0, 2}} {
		if got := others.Row(i); [4]float32(got) != [4]float32(want) {
			t.Errorf("row %d of the others is %v, want %v", i, got, want)
		}
	}
}
