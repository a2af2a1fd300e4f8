package aggregation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models/optimizers"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// validation is the node with a validation part, of words that the model has.
func (b *bench) validation() *taskstest.Node {
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, `{"user":"u","text":"w%d w%d w1 w1 w1"}`+"\n", i%20, i*i%30)
	}
	corpus := b.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{b.Import([]byte(text.String()))}})
	return b.Run(datasets.Encode, datasets.EncodeParams{VocabularySize: 20, ValidationFraction: 0.3}, taskstest.In(datasets.CorpusInput, corpus))
}

func TestRoundsAfterTheTargetChangeNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.extra = []tasks.Input{{Name: training.ValidationInput, Key: b.validation().Key}}
	p := plain(2)
	p.Optimizer, p.LearningRate = optimizers.Config{Kind: optimizers.Momentum, Momentum: 0.5}, 0.01
	p.StopAt = &training.Target{RecallAt1: 1e-9, Every: 2} // regardless of the second measurement
	metrics := training.ChunkMetrics{Clients: 2, Weight: 2, Tokens: 1}
	nodes := []*taskstest.Node{b.origin}
	for round := 1; round <= 4; round++ {
		nodes = append(nodes, b.server(p, round, nodes[round-1], b.chunk(fmt.Sprint(round), b.random(uint64(round)), metrics)))
	}
	models := map[int][]byte{}
	for round, n := range nodes {
		models[round] = n.Blob(tasks.ModelBlob)
	}
	var state training.TargetProgress
	must.Do(t, json.Unmarshal(nodes[4].Blob(training.PursuitBlob), &state))
	if !state.Reached || state.MeasuredAt != 2 || state.RecallAt1 < p.StopAt.RecallAt1 {
		t.Fatalf("%+v, want the target reached in round 2", state)
	}
	if bytes.Equal(models[1], models[2]) || !bytes.Equal(models[2], models[3]) || !bytes.Equal(models[2], models[4]) {
		t.Error("the models do not end with that of round 2")
	}
	if second, third := b.row(nodes[2]), b.row(nodes[3]); second.Stopped || second.ValidationLoss == 0 || !third.Stopped || third.Clients != 0 {
		t.Errorf("rows %+v and %+v", second, third)
	}
}
