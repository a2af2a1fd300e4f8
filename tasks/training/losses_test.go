package training

import (
	"bytes"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/taskstest"
)

func (b *bench) losses(model *taskstest.Node) *taskstest.Node {
	return b.Run(Losses, nil, taskstest.In(ModelInput, model), taskstest.In(PopulationInput, b.population), taskstest.In(ShardsInput, b.parts))
}

func TestEveryRecordHasItsLossInTheOrderOfThePopulation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pop := b.users()
	model := must.Get(checkpoints.Decode(b.origin.Blob("model")))(t)
	scorer := must.Get(model.NewScorer())(t)
	var want []float64
	for i := range pop.Records() {
		sentence := must.Get(pop.ReadRecord(t.Context(), i))(t)
		loss := must.Get(scorer.MeanLosses([][]int32{sentence}))(t)
		want = append(want, loss...)
	}
	if got := b.losses(b.origin).Blob(population.LossesBlob); len(want) == 0 || !bytes.Equal(got, population.EncodeLosses(want)) {
		t.Errorf("%d bytes of losses, not those of the %d records one by one", len(got), len(want))
	}
}

func TestGoldenLosses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	taskstest.Golden(t, b.losses(b.origin))
}
