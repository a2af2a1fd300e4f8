package training

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// stoppingBench is a training on sentences of random words, of which nothing can be
// learned that holds for others: it soon overtrains.
type stoppingBench struct {
	*bench
	params SGDParams
}

func newStoppingBench(t *testing.T, stop *EarlyStopping) stoppingBench {
	t.Helper()
	b := &bench{Graph: taskstest.NewGraph(t), t: t}
	rng := rand.New(rand.NewPCG(5, 6))
	var content strings.Builder
	for range 120 {
		words := make([]string, 6)
		for i := range words {
			words[i] = fmt.Sprintf("w%02d", int(rng.ExpFloat64()*8)%30)
		}
		fmt.Fprintf(&content, `{"user":"u","text":%q}`+"\n", strings.Join(words, " "))
	}
	corpus := b.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{b.Import([]byte(content.String()))}})
	b.parts = b.Run(datasets.Encode, datasets.EncodeParams{VocabularySize: 20, ValidationFraction: 0.3}, taskstest.In(datasets.CorpusInput, corpus))
	balanced := b.Run(population.Balance, population.BalanceParams{Words: 60}, taskstest.In(population.PartsInput, b.parts))
	b.population = b.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, b.parts), taskstest.In(population.BalancedInput, balanced))
	b.origin = b.Run(Initial, InitialParams{Seed: 4, Model: models.Config{Kind: models.LSTM, Vocabulary: 20 + text.FirstWord, Embedding: 8, Units: 24}})
	params := SGDParams{
		Seed: 1, Order: ByRecord, StepsPerTask: 10, EarlyStopping: stop,
		Local: Local{Optimizer: optimizers.Config{Kind: optimizers.Adam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}, LearningRate: 0.02, Batch: 8},
	}
	return stoppingBench{b, params}
}

// train runs tasks of ten steps each, and returns the origin and all of them.
func (b stoppingBench) train(n int) []*taskstest.Node {
	b.t.Helper()
	all := []*taskstest.Node{b.origin}
	for step := 1; step <= n; step++ {
		all = append(all, b.taskAfter(all[step-1], step))
	}
	return all
}

func (b stoppingBench) taskAfter(previous *taskstest.Node, step int) *taskstest.Node {
	b.t.Helper()
	edges := []tasks.Input{
		{Name: tasks.PreviousInput, Key: previous.Key},
		{Name: PopulationInput, Key: b.population.Key},
		{Name: ShardsInput, Key: b.parts.Key},
	}
	if b.params.EarlyStopping != nil || b.params.StopAt != nil {
		edges = append(edges, tasks.Input{Name: ValidationInput, Key: b.parts.Key})
	}
	spec := must.Get(tasks.NewSpec(SGD, b.params, edges...))(b.t)
	h := tasks.NewHasher("test step")
	h.Key(spec.Key)
	h.Uint(uint64(step))
	spec.Key, spec.Step = h.Sum(), step
	return must.Get(b.TrySpec(SGD, spec))(b.t)
}

// validation is the loss of a checkpoint, computed sentence by sentence.
func (b stoppingBench) validation(n *taskstest.Node) float64 {
	b.t.Helper()
	m := b.model(n)
	part := must.Get(population.OpenPart(b.t.Context(), b.Task(taskstest.In("p", b.parts)), "p", population.Validation))(b.t)
	sentences := must.Get(part.ReadRecords(b.t.Context(), 0, part.Records()))(b.t)
	trainer, gradient := m.Network.NewLearner(nil), make([]float32, len(m.Params))
	var sum, tokens float64
	for _, s := range sentences {
		loss := must.Get(trainer.Gradient(m.Params, [][]int32{s}, gradient))(b.t)
		sum, tokens = sum+loss.Sum, tokens+float64(loss.Tokens)
	}
	return sum / tokens
}

func stateOf(t *testing.T, n *taskstest.Node) (s Stopping) {
	t.Helper()
	must.Do(t, json.Unmarshal(n.Blob(StoppingBlob), &s))
	return s
}

func TestEarlyStoppingPicksLowestValidationLoss(t *testing.T) {
	t.Parallel()
	const n = 30
	b := newStoppingBench(t, &EarlyStopping{Every: 15, Patience: 2})
	watched := b.train(n)
	b.params.EarlyStopping = nil
	plain := b.train(n)

	best, stopped, since := 0, 0, 0
	losses := make([]float64, n+1)
	for step := 1; step <= n && stopped == 0; step++ {
		if !bytes.Equal(watched[step].Blob(tasks.ModelBlob), plain[step].Blob(tasks.ModelBlob)) {
			t.Fatalf("before the stop, checkpoint %d is not that of a training without early stopping", step)
		}
		if step%3 == 1 { // steps 10, 40, ...: no multiple of 15 in the task
			continue
		}
		losses[step] = b.validation(plain[step])
		if best == 0 || losses[step] < losses[best] {
			best, since = step, 0
		} else if since++; since == 2 {
			stopped = step
		}
	}
	if best == 0 || stopped == 0 || stopped >= n-1 || best == stopped {
		t.Fatalf("the best checkpoint is %d, the stop after %d of %d tasks: the text does not overtrain the model", best, stopped, n)
	}
	got := stateOf(t, watched[n])
	if got.BestStep != 10*best || got.StoppedAt != 10*stopped || math.Abs(got.ValidationLoss-losses[best]) > 1e-5 {
		t.Errorf("state %+v, want the best after %d steps with a loss of %v, the stop after %d", got, 10*best, losses[best], 10*stopped)
	}
	for step := stopped + 1; step <= n; step++ {
		if !bytes.Equal(watched[step].Blob(tasks.ModelBlob), plain[best].Blob(tasks.ModelBlob)) {
			t.Fatalf("after the stop, checkpoint %d is not the best one", step)
		}
	}
	chosen := b.Run(Best, struct{}{}, taskstest.In(tasks.PreviousInput, watched[stopped]))
	if !bytes.Equal(chosen.Blob(tasks.ModelBlob), plain[best].Blob(tasks.ModelBlob)) {
		t.Error("what is chosen is not the best checkpoint")
	}
	checkStoppedRows(t, watched[n], stopped, losses)
}

// checkStoppedRows compares the rows with the measurements.
func checkStoppedRows(t *testing.T, last *taskstest.Node, stopped int, losses []float64) {
	t.Helper()
	rows := must.Get(checkpoints.DecodeRows(last.Blob(tasks.RowsBlob)))(t)
	for i, row := range rows {
		step := i + 1
		switch {
		case step > stopped && (!row.Stopped || row.Tokens != 0 || row.ValidationLoss != 0):
			t.Errorf("row %+v of a task after the stop", row)
		case step <= stopped && (row.Stopped || row.Tokens == 0 || math.Abs(row.ValidationLoss-losses[step]) > 1e-5):
			t.Errorf("row %+v, want a validation loss of %v", row, losses[step])
		}
	}
}

func TestBestModelWithoutStopping(t *testing.T) {
	t.Parallel()
	b := newStoppingBench(t, &EarlyStopping{Every: 10, Patience: 1000})
	last := b.train(12)[12]
	chosen := b.Run(Best, struct{}{}, taskstest.In(tasks.PreviousInput, last))
	var state Stopping
	chosen.DecodeMetrics(&state)
	if state.StoppedAt != 0 || state.BestStep == 0 || state.SinceBest != 12-state.BestStep/10 {
		t.Errorf("state %+v", state)
	}
	if loss := b.validation(chosen); math.Abs(loss-state.ValidationLoss) > 1e-5 {
		t.Errorf("the chosen model has a validation loss of %v, said to be %v", loss, state.ValidationLoss)
	}
}

// Of equal losses the first counts, so that a plateau is waited for no longer than the patience.
func TestEarlyStoppingIgnoresEqualLoss(t *testing.T) {
	t.Parallel()
	s := &stopping{params: &EarlyStopping{Every: 1, Patience: 2}}
	for step, c := range []struct {
		loss float64
		best bool
	}{{2, true}, {2, false}, {1, true}, {1, false}, {1, false}} {
		if s.over() {
			t.Fatalf("stopped before step %d", step+1)
		}
		if got := s.take(c.loss, step+1); got != c.best {
			t.Errorf("step %d: best is %v, want %v", step+1, got, c.best)
		}
	}
	if s.state.BestStep != 3 || s.state.StoppedAt != 5 {
		t.Errorf("best step %d, stopped at %d; want 3 and 5", s.state.BestStep, s.state.StoppedAt)
	}
}

func TestEarlyStoppingNeedsMeasurement(t *testing.T) {
	t.Parallel()
	b := newStoppingBench(t, &EarlyStopping{Every: 100, Patience: 1})
	last := b.train(2)[2]
	if _, err := b.Try(Best, struct{}{}, taskstest.In(tasks.PreviousInput, last)); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "early_stopping.every") {
		t.Errorf("got %v", err)
	}
}

func TestGoldenEarlyStopping(t *testing.T) {
	t.Parallel()
	b := newStoppingBench(t, &EarlyStopping{Every: 10, Patience: 1})
	last := b.train(2)[2]
	taskstest.Golden(t, b.Run(Best, struct{}{}, taskstest.In(tasks.PreviousInput, last)))
}
