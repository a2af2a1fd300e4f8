package models

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

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

func TestAnOutlineThatNoNetworkHasIsRefused(t *testing.T) {
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
		if _, err := OutlineOf(shapes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", shapes, err, want)
		}
	}
	for want, config := range map[string]Config{
		"has an outline and nothing else": {Kind: External, Outline: `[{"name":"a","shape":[1]}]`, Units: 3},
		"outline of a network":            {Kind: External, Outline: "a 1"},
	} {
		if _, err := NewExternal(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", config, err, want)
		}
	}
}
