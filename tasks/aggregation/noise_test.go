package aggregation

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

var mechanisms = []*correlated.Mechanism{
	{Kind: correlated.KindBLT, Scales: []float64{0.1, 0.3}, Decays: []float64{0.99, 0.7}},
	{Kind: correlated.KindBanded, Coefficients: []float64{1, 0.6, 0.3}},
	{Kind: correlated.KindTree},
}

// ftrlParams is a training of 1,000 users, in cohorts of 10.
func ftrlParams(m *correlated.Mechanism) ServerParams {
	p := private()
	p.Mechanism = m
	p.Guarantee = &training.Guarantee{Sampling: privacy.Separated, Separation: 5, Delta: 1e-5}
	return p
}

// independent is the noise that a round's is made of, of the streams that it names.
func independent(round, stream, n int) []float64 {
	indices := []uint64{uint64(round), uint64(stream)}
	if stream == 0 {
		indices = indices[:1]
	}
	rng := seeds.Stream(3, seeds.Noise, indices...)
	out := make([]float64, n)
	for i := range out {
		out[i] = rng.NormFloat64()
	}
	return out
}

// The strategy makes C of the rounds' noise, and the result is the noise of the streams; package
// correlated tests the inverse.
func TestTheNoiseOfRoundsIsTheStrategysOfTheStreamsOfNoise(t *testing.T) {
	t.Parallel()
	for _, m := range mechanisms {
		b := newBench(t)
		nobody := b.chunk("nobody", make([]float32, len(b.model.Params)), training.ChunkMetrics{})
		strategy, err := m.Strategy()
		must.Do(t, err)
		var buffers [][]float32
		last, before := b.origin, b.model.Params
		for round := 1; round <= 8; round++ {
			last = b.server(ftrlParams(m), round, last, nobody)
			var want []float64
			want, buffers, err = strategy.Noise(round, buffers, func(stream uint64) ([]float64, error) {
				return independent(round, int(stream), len(before)), nil
			})
			must.Do(t, err)
			after := b.read(last).Params
			for i, v := range want {
				// Noise 4 on a clip norm of 0.5 and a cohort of 10.
				if got := float64(after[i]) - float64(before[i]); math.Abs(got-0.2*v) > 1e-6 {
					t.Fatalf("%s: round %d moves parameter %d by %v, want %v", m.Kind, round, i, got, 0.2*v)
				}
			}
			before = after
		}
	}
}

func TestCorrelatedNoiseResumesFromCheckpoint(t *testing.T) {
	t.Parallel()
	for _, m := range mechanisms {
		b := newBench(t)
		p := ftrlParams(m)
		chunk := b.chunk("x", b.random(1), training.ChunkMetrics{Clients: 10, Weight: 10, Tokens: 9})
		whole := []*taskstest.Node{b.origin}
		for round := 1; round <= 6; round++ {
			whole = append(whole, b.server(p, round, whole[round-1], chunk))
		}
		// Another process, which knows nothing but the checkpoint of round 3.
		other := newBench(t)
		stored := map[string][]byte{}
		for _, blob := range []string{tasks.ModelBlob, checkpoints.NoiseBlob, tasks.RowsBlob} {
			stored[blob] = whole[3].Blob(blob)
		}
		last := other.Put("checkpoint", stored)
		x := other.chunk("x", b.random(1), training.ChunkMetrics{Clients: 10, Weight: 10, Tokens: 9})
		for round := 4; round <= 6; round++ {
			last = other.server(p, round, last, x)
			for _, blob := range []string{tasks.ModelBlob, checkpoints.NoiseBlob} {
				if !bytes.Equal(last.Blob(blob), whole[round].Blob(blob)) {
					t.Fatalf("%s: after round %d the %s differs from that of the training in one piece", m.Kind, round, blob)
				}
			}
		}
	}
}

func TestARoundBeyondTheBudgetKeepsTheBuffersOfTheNoise(t *testing.T) {
	t.Parallel()
	for _, m := range mechanisms {
		b := newBench(t)
		p := ftrlParams(m)
		chunk := b.chunk("x", b.random(1), training.ChunkMetrics{Clients: 10, Weight: 10, Tokens: 9})
		run := func(round int, last *taskstest.Node) *taskstest.Node { return b.server(p, round, last, chunk) }
		p.Guarantee.Budget = &privacy.Budget{Epsilon: b.row(run(1, b.origin)).EpsilonProved, Delta: 1e-5}
		first := run(1, b.origin)
		second := run(2, first)
		third := run(3, second)
		if b.row(first).Stopped || !b.row(second).Stopped || !b.row(third).Stopped {
			t.Fatalf("%s: rounds of a budget for one: %+v, %+v, %+v", m.Kind, b.row(first), b.row(second), b.row(third))
		}
		for _, blob := range []string{tasks.ModelBlob, checkpoints.NoiseBlob} {
			if !bytes.Equal(first.Blob(blob), third.Blob(blob)) {
				t.Errorf("%s: rounds beyond the budget changed the %s", m.Kind, blob)
			}
		}
	}
}

func TestCorrelatedNoiseRowsReportEpsilonSoFar(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	nobody := b.chunk("nobody", make([]float32, len(b.model.Params)), training.ChunkMetrics{})
	last := b.origin
	for round := 1; round <= 6; round++ {
		last = b.server(ftrlParams(mechanisms[0]), round, last, nobody)
		want := must.Get(privacy.Account(privacy.Recipe{
			Population: 1000, Cohort: 10, Rounds: round, NoiseMultiplier: 4, Delta: 1e-5,
			Sampling: privacy.Separated, Separation: 5, Mechanism: mechanisms[0],
		}))(t)
		if row := b.row(last); row.EpsilonProved != float64(want.EpsilonRenyi) || row.Epsilon != row.EpsilonProved {
			t.Errorf("round %d: epsilon %v, proved %v; the accountant says %v", round, row.Epsilon, row.EpsilonProved, want.EpsilonRenyi)
		}
	}
}

func TestCorrelatedNoiseDigests(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("equal bytes are promised among x86-64 machines")
	}
	want := map[correlated.Kind]string{correlated.KindBLT: "4c83e9d7f328014b", correlated.KindBanded: "10cf16d787083ab9", correlated.KindTree: "a5e031e8bd02180b"}
	for _, m := range mechanisms {
		b := newBench(t)
		last := b.origin
		for round := 1; round <= 4; round++ {
			chunk := b.chunk(fmt.Sprint("x", round), b.random(uint64(round)), training.ChunkMetrics{Clients: 2, Weight: 2, Tokens: 9, LossSum: 1})
			last = b.server(ftrlParams(m), round, last, chunk)
		}
		if got := storage.DigestOf(append(last.Blob(tasks.ModelBlob), last.Blob(checkpoints.NoiseBlob)...)).String(); got[:16] != want[m.Kind] {
			t.Errorf("%s: the digest of the model and the buffers begins with %s; it was %s", m.Kind, got[:16], want[m.Kind])
		}
	}
}

// The server adds no noise that devices have added, and its account equals that of its own noise.
func TestDeviceNoiseIsAccountedAsServerNoise(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := private()
	nobody := b.chunk("nobody", make([]float32, len(b.model.Params)), training.ChunkMetrics{})
	own := b.row(b.server(p, 1, b.origin, nobody))
	p.NoiseBy = privacy.ByDevices
	n := b.server(p, 1, b.origin, nobody)
	row := b.row(n)
	if row.Epsilon != own.Epsilon || row.EpsilonProved != own.EpsilonProved || row.NoiseDeviation != own.NoiseDeviation || row.EpsilonProved == 0 {
		t.Errorf("noise of devices is counted as %+v, that of the server as %+v", row, own)
	}
	if !slices.Equal(b.read(n).Params, b.model.Params) {
		t.Error("the server adds noise to what has it already")
	}
}
