package updates_test

import (
	"slices"
	"strings"
	"testing"

	"coalmine/tasks/updates"
)

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

func TestLayersThatAreNotThereAreListed(t *testing.T) {
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
