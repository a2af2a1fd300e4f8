package training

import (
	"bytes"
	"testing"

	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/taskstest"
)

func (b *bench) losses(model *taskstest.Node) *taskstest.Node {
	return b.Run(Losses, nil, taskstest.In(ModelInput, model), taskstest.In(PopulationInput, b.population), taskstest.In(ShardsInput, b.parts))
}

func TestEveryRecordHasItsLossInTheOrderOfThePopulation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	population := b.users()
	model, err := checkpoints.Decode(b.origin.Blob("model"))
	if err != nil {
		t.Fatal(err)
	}
	scorer, err := model.NewScorer()
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	for i := range population.Records() {
		sentence, err := population.ReadRecord(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		loss, err := scorer.MeanLosses([][]int32{sentence})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, loss...)
	}
	if got := b.losses(b.origin).Blob(datasets.LossesBlob); len(want) == 0 || !bytes.Equal(got, datasets.EncodeLosses(want)) {
		t.Errorf("%d bytes of losses, not those of the %d records one by one", len(got), len(want))
	}
}

func TestGoldenLosses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	taskstest.Golden(t, b.losses(b.origin))
}
