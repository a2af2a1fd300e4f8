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

func TestEveryDeviceIsAUserWhereNobodyWasDivided(t *testing.T) {
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

func TestWhatCannotBeReadIsNamed(t *testing.T) {
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
