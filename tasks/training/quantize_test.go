package training

import (
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/taskstest"
)

func quantized(b *bench, bits int) *taskstest.Node {
	return b.Run(Quantize, QuantizeParams{Bits: bits}, taskstest.In(ModelInput, b.origin))
}

func TestAQuantizedModelIsACheckpointWithFewValues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	before, after := b.model(b.origin), b.model(quantized(b, 3))
	if after.Network.Config() != before.Network.Config() {
		t.Errorf("a model of %+v became one of %+v", before.Network.Config(), after.Network.Config())
	}
	want := slices.Clone(before.Params)
	must.Do(t, models.Quantize(before.Network, want, 3))
	if !slices.Equal(after.Params, want) || slices.Equal(before.Params, want) {
		t.Error("the checkpoint has other parameters than those of the model, rounded")
	}
	for _, tensor := range after.Network.Tensors() {
		values := slices.Clone(tensor.View(after.Params))
		slices.Sort(values)
		if n := len(slices.Compact(values)); n > 7 {
			t.Errorf("%v has %d values in 3 bits, want at most 7", tensor, n)
		}
	}
}
