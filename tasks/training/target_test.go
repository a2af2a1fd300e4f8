package training

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

func pursuitOf(t *testing.T, n *taskstest.Node) (p TargetProgress) {
	t.Helper()
	must.Do(t, json.Unmarshal(n.Blob(PursuitBlob), &p))
	return p
}

// recall is the share of the validation part's ordinary words that a checkpoint guesses first.
func (b stoppingBench) recall(n *taskstest.Node) float64 {
	b.t.Helper()
	recall, _ := b.usefulness(n)
	return recall
}

// usefulness is the recall of a checkpoint, and its perplexity on the same words, sentence by
// sentence.
func (b stoppingBench) usefulness(n *taskstest.Node) (recall, perplexity float64) {
	b.t.Helper()
	part := must.Get(population.OpenPart(b.t.Context(), b.Task(taskstest.In("p", b.parts)), "p", population.Validation))(b.t)
	scorer := must.Get(b.model(n).NewScorer())(b.t)
	hits, words := 0, 0
	loss := 0.0
	for i := range part.Records() {
		records := must.Get(part.ReadRecords(b.t.Context(), i, i+1))(b.t)
		for _, target := range records[0][1:] {
			if target >= text.FirstWord {
				words++
			}
		}
		found := must.Get(scorer.Evaluate(records, func(target int32) bool { return target >= text.FirstWord }))(b.t)
		hits, loss = hits+int(found.Counted.Hits), loss+found.Counted.Loss
	}
	return float64(hits) / float64(words), math.Exp(loss / float64(words))
}

func TestTrainingStopsAtFirstMeasurementOnTarget(t *testing.T) {
	t.Parallel()
	const n = 14
	b := newStoppingBench(t, nil)
	plain := b.train(n)
	b.params.StopAt = &Target{RecallAt1: b.recall(plain[7]), Every: 15}
	watched := b.train(n)

	reached := 0
	for step := 1; step <= n && reached == 0; step++ {
		if !bytes.Equal(watched[step].Blob(tasks.ModelBlob), plain[step].Blob(tasks.ModelBlob)) {
			t.Fatalf("before its target checkpoint %d is not that of a training without one", step)
		}
		if measured := step%3 != 1; measured && b.recall(plain[step]) >= b.params.StopAt.RecallAt1 { // tasks 1, 4, ... pass no multiple of 15
			reached = step
		}
	}
	if reached == 0 || reached >= n-1 {
		t.Fatalf("the target is reached in task %d of %d: choose another", reached, n)
	}
	got := pursuitOf(t, watched[n])
	want := TargetProgress{Target: b.params.StopAt.RecallAt1, MeasuredAt: 10 * reached, RecallAt1: b.recall(plain[reached]), Reached: true}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for step := reached + 1; step <= n; step++ {
		if !bytes.Equal(watched[step].Blob(tasks.ModelBlob), plain[reached].Blob(tasks.ModelBlob)) {
			t.Fatalf("after the end checkpoint %d is another model", step)
		}
	}
	rows := must.Get(checkpoints.DecodeRows(watched[n].Blob(tasks.RowsBlob)))(t)
	if loss := b.validation(plain[reached]); math.Abs(rows[reached-1].ValidationLoss-loss) > 1e-5 || rows[reached-1].Stopped || !rows[reached].Stopped || rows[reached].Tokens != 0 {
		t.Errorf("rows %+v and %+v; the validation loss is %v", rows[reached-1], rows[reached], loss)
	}
}

func TestTrainingStopsAtPerplexityTarget(t *testing.T) {
	t.Parallel()
	const n = 8
	b := newStoppingBench(t, nil)
	plain := b.train(n)
	_, fifth := b.usefulness(plain[5])
	b.params.StopAt = &Target{Perplexity: 1.001 * fifth, Every: 10}
	last := b.train(n)[n]
	for task := 1; task <= n; task++ {
		recall, perplexity := b.usefulness(plain[task])
		if perplexity > b.params.StopAt.Perplexity {
			continue
		}
		got := pursuitOf(t, last)
		want := TargetProgress{Measure: PerplexityMeasure, Target: b.params.StopAt.Perplexity, MeasuredAt: 10 * task, RecallAt1: recall, Perplexity: got.Perplexity, Reached: true}
		if got != want || math.Abs(float64(got.Perplexity)/perplexity-1) > 1e-9 {
			t.Errorf("%+v, want %+v with a perplexity of %v", got, want, perplexity)
		}
		if !bytes.Equal(last.Blob(tasks.ModelBlob), plain[task].Blob(tasks.ModelBlob)) {
			t.Error("the last model is not that of the end")
		}
		if want := fmt.Sprintf("perplexity on the validation part was %.2f after round (sgd: step) %d, of", perplexity, 10*task); !strings.HasPrefix(got.String(), want) {
			t.Errorf("%q, want %q ...", got.String(), want)
		}
		return
	}
	t.Fatal("no checkpoint reaches the target")
}

func TestATargetOutOfReachChangesNoModel(t *testing.T) {
	t.Parallel()
	b := newStoppingBench(t, nil)
	plain := b.train(3)
	b.params.StopAt = &Target{RecallAt1: 1, Every: 20}
	last := b.train(3)[3]
	if !bytes.Equal(last.Blob(tasks.ModelBlob), plain[3].Blob(tasks.ModelBlob)) {
		t.Error("the model is another")
	}
	if p := pursuitOf(t, last); p.Reached || p.MeasuredAt != 20 || p.RecallAt1 != b.recall(plain[2]) {
		t.Errorf("%+v", p)
	}
}

// After the end clients send nothing, and before it their usual updates.
func TestClientsDoNotTrainAfterTheTarget(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := ClientsParams{Seed: 1, Cohort: 4, Chunks: 1, Sampling: "fixed-size", Local: Local{Optimizer: sgd, LearningRate: 0.1, Batch: 8}, Epochs: 1}
	plain := b.mustStep(Clients, p, b.origin, 2, 0)
	p.StopAt = &Target{RecallAt1: 0.5, Every: 1}
	for _, reached := range []bool{false, true} {
		state := must.Get(json.Marshal(TargetProgress{Target: 0.5, MeasuredAt: 1, RecallAt1: 0.4, Reached: reached}))(t)
		before := b.Put("round 1", map[string][]byte{tasks.ModelBlob: b.origin.Blob(tasks.ModelBlob), PursuitBlob: state})
		n := b.mustStep(Clients, p, before, 2, 0)
		var m ChunkMetrics
		n.DecodeMetrics(&m)
		if idle := m == (ChunkMetrics{}); idle != reached {
			t.Errorf("reached %v: %+v", reached, m)
		}
		if !reached && !bytes.Equal(n.Blob(SumBlob), plain.Blob(SumBlob)) {
			t.Error("before the target the sum is another")
		}
	}
}

func TestInvalidTargetsAreErrors(t *testing.T) {
	t.Parallel()
	b := newStoppingBench(t, nil)
	for _, target := range []Target{
		{Every: 1}, {RecallAt1: 1.1, Every: 1}, {RecallAt1: math.NaN(), Every: 1}, {RecallAt1: 0.5}, {RecallAt1: -1, Perplexity: 20, Every: 1},
		{Perplexity: 0.9, Every: 1}, {Perplexity: math.Inf(1), Every: 1}, {Perplexity: math.NaN(), Every: 1}, {Perplexity: 20}, {RecallAt1: 0.5, Perplexity: 20, Every: 1},
	} {
		if _, err := target.Open(t.Context(), b.Task(), true); !tasks.IsPermanent(err) {
			t.Errorf("%+v: %v", target, err)
		}
	}
}

func TestAPerplexityBeyondTheFloatRangeReachesNoTarget(t *testing.T) {
	t.Parallel()
	p := (&Target{Perplexity: 60, Every: 10}).begin()
	p.take(10, models.Tally{Tokens: 4, Loss: 4 * 1000})
	data, err := json.Marshal(p)
	const want = `{"measure":"perplexity","target":60,"measured_at":10,"recall_at_1":0,"perplexity":null,"infinite":true,"reached":false}`
	if err != nil || string(data) != want {
		t.Errorf("%s (%v), want %s", data, err, want)
	}
	if !strings.HasPrefix(p.String(), "perplexity on the validation part was infinite after") {
		t.Errorf("it says %q", p.String())
	}
	var back TargetProgress
	if err := json.Unmarshal(data, &back); err != nil || back != p {
		t.Errorf("it reads as %+v (%v), want %+v", back, err, p)
	}
	p.take(20, models.Tally{Tokens: 4, Loss: 4})
	if p.Infinite || !p.Reached {
		t.Errorf("after a finite measurement it is %+v", p)
	}
}
