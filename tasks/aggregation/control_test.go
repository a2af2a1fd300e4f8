package aggregation

import (
	"slices"
	"testing"

	"coalmine/privacy"
	"coalmine/tasks/training"
)

func TestWithoutNoiseTheAccountIsThatOfNoise(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	claimed, silent := private(), private()
	broken := private()
	broken.Control = privacy.NoNoise
	silent.NoiseMultiplier, silent.Guarantee = 0, nil
	sum := b.chunk("x", b.random(1), training.ChunkMetrics{Clients: 10, Weight: 10, Tokens: 1})
	got, noised, plain := b.server(broken, 1, b.origin, sum), b.server(claimed, 1, b.origin, sum), b.server(silent, 1, b.origin, sum)
	if !slices.Equal(b.read(got).Params, b.read(plain).Params) || slices.Equal(b.read(got).Params, b.read(noised).Params) {
		t.Error("the model has noise where none was to be added")
	}
	if row, want := b.row(got), b.row(noised); row.EpsilonProved != want.EpsilonProved || row.EpsilonProved == 0 || row.NoiseDeviation != want.NoiseDeviation {
		t.Errorf("the row claims %+v, with noise %+v", row.Spending, want.Spending)
	}
}
