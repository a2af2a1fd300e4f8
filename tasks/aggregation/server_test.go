package aggregation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
)

// bench is a model and chunks with sums made by hand.
type bench struct {
	*taskstest.Graph
	t      *testing.T
	model  *checkpoints.Model
	origin *taskstest.Node
	extra  []tasks.Input // of the server
}

func newBench(t *testing.T) *bench {
	t.Helper()
	g := taskstest.NewGraph(t)
	origin := g.Run(training.Initial, training.InitialParams{Seed: 1, Model: models.Config{
		Kind: models.CIFGLSTM, Vocabulary: 50, Embedding: 8, Units: 16,
	}})
	b := &bench{Graph: g, t: t, origin: origin}
	b.model = b.read(origin)
	return b
}

func (b *bench) read(n *taskstest.Node) *checkpoints.Model {
	b.t.Helper()
	return must.Get(checkpoints.Decode(n.Blob(tasks.ModelBlob)))(b.t)
}

// chunk is a node as training/clients leaves it, whose updates all have norm 1.
func (b *bench) chunk(name string, sum []float32, m training.ChunkMetrics) *taskstest.Node {
	b.t.Helper()
	norms := make([]float32, m.Clients)
	for i := range norms {
		norms[i] = 1
	}
	return b.chunkOf(name, sum, norms, m)
}

func (b *bench) chunkOf(name string, sum, norms []float32, m training.ChunkMetrics) *taskstest.Node {
	b.t.Helper()
	data, err := training.EncodeSum(safetensors.Tensor{Shape: []int{len(sum)}, Float32: sum}, norms)
	if err != nil {
		b.t.Fatal(err)
	}
	n := b.Put(name, map[string][]byte{training.SumBlob: data})
	if n.Metrics, err = json.Marshal(m); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// population is a node as datasets/partition leaves it.
func (b *bench) population(users int) *taskstest.Node {
	b.t.Helper()
	n := b.Put(fmt.Sprint(users, " users"), nil)
	n.Metrics = fmt.Appendf(nil, `{"users":%d}`, users)
	return n
}

// row is the last metric row of a step.
func (b *bench) row(n *taskstest.Node) checkpoints.Row {
	b.t.Helper()
	rows := must.Get(checkpoints.DecodeRows(n.Blob(tasks.RowsBlob)))(b.t)
	return rows[len(rows)-1]
}

// private is a training whose noise is accounted, of 1,000 users.
func private() ServerParams {
	p := plain(10)
	p.Clip, p.NoiseMultiplier = 0.5, 4
	p.Guarantee = &training.Guarantee{Sampling: privacy.FixedSize, Delta: 1e-5}
	return p
}

// random is a sum of updates of a plausible size.
func (b *bench) random(seed uint64) []float32 {
	rng := seeds.Stream(seed, "test")
	x := make([]float32, len(b.model.Params))
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func (b *bench) server(p ServerParams, round int, previous *taskstest.Node, chunks ...*taskstest.Node) *taskstest.Node {
	b.t.Helper()
	p.Chunks = len(chunks)
	inputs := append([]tasks.Input{{Name: tasks.PreviousInput, Key: previous.Key}}, b.extra...)
	if p.Guarantee != nil {
		inputs = append(inputs, tasks.Input{Name: PopulationInput, Key: b.population(1000).Key})
	}
	for j, c := range chunks {
		inputs = append(inputs, tasks.Input{Name: tasks.PartInput(j), Key: c.Key})
	}
	spec := must.Get(tasks.NewSpec(Server, p, inputs...))(b.t)
	h := tasks.NewHasher("test step")
	h.Key(spec.Key)
	h.Uint(uint64(round))
	spec.Key, spec.Step = h.Sum(), round
	return must.Get(b.TrySpec(Server, spec))(b.t)
}

func plain(cohort int) ServerParams {
	return ServerParams{Seed: 3, Cohort: cohort, Optimizer: optimizers.Config{Kind: optimizers.SGD}, LearningRate: 1}
}

func TestWithoutClipTheMeanIsByExamples(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x, y := b.random(1), b.random(2)
	n := b.server(plain(5), 1, b.origin,
		b.chunk("x", x, training.ChunkMetrics{Clients: 2, Weight: 30, Tokens: 1}),
		b.chunk("y", y, training.ChunkMetrics{Clients: 3, Weight: 50, Tokens: 1}))
	for i, got := range b.read(n).Params {
		want := float64(b.model.Params[i]) + (float64(x[i])+float64(y[i]))/80
		if math.Abs(float64(got)-want) > 1e-6 {
			t.Fatalf("parameter %d is %v, want %v", i, got, want)
		}
	}
}

func TestWithAClipTheMeanIsByTheCohort(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := plain(5) // an expected cohort of 5, of which 4 came
	p.Clip = 0.2
	x := b.random(1)
	n := b.server(p, 1, b.origin, b.chunk("x", x, training.ChunkMetrics{Clients: 4, Weight: 4, Tokens: 1}))
	for i, got := range b.read(n).Params {
		if want := float64(b.model.Params[i]) + float64(x[i])/5; math.Abs(float64(got)-want) > 1e-6 {
			t.Fatalf("parameter %d is %v, want %v", i, got, want)
		}
	}
}

func TestNoiseHasTheStatedDeviation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := plain(10)
	p.Clip, p.NoiseMultiplier = 0.5, 1.3
	nobody := b.chunk("nobody", make([]float32, len(b.model.Params)), training.ChunkMetrics{})
	first, again, next := b.server(p, 1, b.origin, nobody), b.server(p, 1, b.origin, nobody), b.server(p, tasks.SegmentSteps+1, b.origin, nobody)
	if !slices.Equal(b.read(first).Params, b.read(again).Params) {
		t.Error("a round that is run again draws other noise")
	}
	if slices.Equal(b.read(first).Params, b.read(next).Params) {
		t.Error("two rounds draw the same noise")
	}
	sum, n := 0.0, float64(len(b.model.Params))
	for i, v := range b.read(first).Params {
		d := float64(v) - float64(b.model.Params[i])
		sum += d * d
	}
	// The sample deviation of n normals has a relative error of 1/sqrt(2n); five
	// of those are passed with probability 6e-7. The seed is fixed.
	want := 1.3 * 0.5 / 10
	if got := math.Sqrt(sum / n); math.Abs(got/want-1) > 5/math.Sqrt(2*n) {
		t.Errorf("the noise deviates by %.5f, want %.5f", got, want)
	}
}

func TestServerMomentumCarriesOverRounds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := plain(1)
	p.Optimizer = optimizers.Config{Kind: optimizers.Momentum, Momentum: 0.9}
	p.LearningRate = 0.5
	x := b.random(1)
	c := b.chunk("x", x, training.ChunkMetrics{Clients: 1, Weight: 1, Tokens: 1})
	second := b.server(p, 2, b.server(p, 1, b.origin, c), c)
	for i, got := range b.read(second).Params {
		// Velocities x and 1.9 x.
		if want := float64(b.model.Params[i]) + 0.5*(1+1.9)*float64(x[i]); math.Abs(float64(got)-want) > 1e-5 {
			t.Fatalf("parameter %d is %v, want %v", i, got, want)
		}
	}
}

func TestRowsTravelToTheEndOfTheirSegment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	last := b.origin
	for round := 1; round <= tasks.SegmentSteps+3; round++ {
		c := b.chunk(fmt.Sprint("round ", round), make([]float32, len(b.model.Params)), training.ChunkMetrics{
			Clients: 1, Weight: 1, Tokens: int64(round), LossSum: 2 * float64(round),
		})
		last = b.server(plain(1), round, last, c)
		if round != tasks.SegmentSteps {
			continue
		}
		rows, err := checkpoints.DecodeSegment(last.Blob(tasks.SegmentBlob))
		if err != nil || len(rows) != tasks.SegmentSteps {
			t.Fatalf("the segment has %d rows (%v), want %d", len(rows), err, tasks.SegmentSteps)
		}
		for i, row := range rows {
			if row.Round != int64(i+1) || row.Tokens != int64(i+1) || row.Loss != 2 {
				t.Errorf("row %d is %+v", i, row)
			}
		}
	}
	rows, err := checkpoints.DecodeRows(last.Blob(tasks.RowsBlob))
	if err != nil || len(rows) != 3 || rows[0].Round != tasks.SegmentSteps+1 {
		t.Errorf("the open segment holds %+v (%v), want rounds 101 to 103", rows, err)
	}
}

func TestRowsReportEpsilonSoFar(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	nobody := b.chunk("nobody", make([]float32, len(b.model.Params)), training.ChunkMetrics{})
	last := b.origin
	for round := 1; round <= 3; round++ {
		last = b.server(private(), round, last, nobody)
		want := must.Get(privacy.Account(privacy.Recipe{Population: 1000, Cohort: 10, Rounds: round, NoiseMultiplier: 4, Delta: 1e-5}))(t)
		if row := b.row(last); row.Epsilon != float64(want.Epsilon) || row.EpsilonProved != float64(want.EpsilonRenyi) {
			t.Errorf("round %d: epsilon %v, proved %v; the accountant says %v and %v", round, row.Epsilon, row.EpsilonProved, want.Epsilon, want.EpsilonRenyi)
		}
	}
}

func TestTheServerCountsByTheConversionOfItsGuarantee(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := private()
	p.Guarantee.Conversion = privacy.Improved
	chunk := b.chunk("x", b.random(1), training.ChunkMetrics{Clients: 10, Weight: 10, Tokens: 9})
	want := must.Get(privacy.Account(privacy.Recipe{
		Population: 1000, Cohort: 10, Rounds: 1, NoiseMultiplier: 4, Delta: 1e-5, Conversion: privacy.Improved,
	}))(t)
	row, classic := b.row(b.server(p, 1, b.origin, chunk)), b.row(b.server(private(), 1, b.origin, chunk))
	if row.EpsilonProved != float64(want.EpsilonRenyi) || row.EpsilonProved >= classic.EpsilonProved {
		t.Errorf("epsilon_proved %v, the accountant says %v; %v by the classic conversion", row.EpsilonProved, want.EpsilonRenyi, classic.EpsilonProved)
	}
}

func TestARoundBeyondTheBudgetChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := private()
	p.Optimizer = optimizers.Config{Kind: optimizers.Momentum, Momentum: 0.9}
	chunk := b.chunk("x", b.random(1), training.ChunkMetrics{Clients: 10, Weight: 10, Tokens: 9})
	cost := b.row(b.server(p, 2, b.server(p, 1, b.origin, chunk), chunk)).EpsilonProved
	p.Guarantee.Budget = &privacy.Budget{Epsilon: cost, Delta: 1e-5}
	second := b.server(p, 2, b.server(p, 1, b.origin, chunk), chunk)
	third := b.server(p, 3, second, chunk)
	if b.row(second).Stopped || !b.row(third).Stopped {
		t.Errorf("rounds 2 and 3 of a budget for two: %+v, %+v", b.row(second), b.row(third))
	}
	for _, blob := range []string{tasks.ModelBlob, tasks.OptimizerBlob} {
		if !bytes.Equal(second.Blob(blob), third.Blob(blob)) {
			t.Errorf("the round beyond the budget changed the %s", blob)
		}
	}
	if got := b.row(third).EpsilonProved; got != cost {
		t.Errorf("the stopped round has cost %v, want the %v of two rounds", got, cost)
	}
}

func TestTheClipNormFollowsTheQuantileWithItsShareOfTheNoise(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := private()
	p.Adaptive = &privacy.ClipQuantile{Target: 0.5, LearningRate: 0.2, CountNoise: 3}
	chunk := b.chunk("x", make([]float32, len(b.model.Params)), training.ChunkMetrics{Clients: 10, Weight: 10, Clipped: 2, Tokens: 9})
	first := b.server(p, 1, b.origin, chunk)
	second := b.server(p, 2, first, chunk)

	want := p.Adaptive.Next(0.5, 8, 10, seeds.Stream(p.Seed, seeds.ClipCount, 1).NormFloat64(), 10)
	if got := string(first.Blob(checkpoints.ClipBlob)); got != fmt.Sprint(want) {
		t.Errorf("the clip norm after round 1 is %s, want %v", got, want)
	}
	if rows := []checkpoints.Row{b.row(first), b.row(second)}; rows[0].Clip != 0.5 || rows[1].Clip != want {
		t.Errorf("rounds 1 and 2 clipped to %v and %v, want 0.5 and %v", rows[0].Clip, rows[1].Clip, want)
	}
	applied := must.Get(p.Adaptive.UpdateNoise(4))(t)
	if got, want := b.row(second).NoiseDeviation, applied*want/10; math.Abs(got/want-1) > 1e-12 {
		t.Errorf("the noise on the mean deviates by %v, want %v", got, want)
	}
	fixed := b.server(private(), 1, b.origin, chunk)
	if a, f := b.row(first), b.row(fixed); a.EpsilonProved != f.EpsilonProved {
		t.Errorf("with adaptive clipping a round costs %v, without %v; want the same", a.EpsilonProved, f.EpsilonProved)
	}
}

func TestARowHasQuantilesOfAllClientsNorms(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	nothing := make([]float32, len(b.model.Params))
	few := b.chunkOf("few", nothing, []float32{4, 1, 3}, training.ChunkMetrics{Clients: 3, Weight: 3, Tokens: 9, Clipped: 2})
	many := b.chunkOf("many", nothing, []float32{9, 2, 8, 7, 5, 6, 10}, training.ChunkMetrics{Clients: 7, Weight: 7, Tokens: 9, Clipped: 6})
	p := plain(10)
	p.Clip = 2.5
	row := b.row(b.server(p, 1, b.origin, few, many))
	if want := (checkpoints.Norms{Min: 1, Tenth: 1, Quarter: 3, Median: 5, ThreeQuarters: 8, NineTenths: 9, Largest: 10}); row.Norms != want {
		t.Errorf("quantiles %+v, want %+v", row.Norms, want)
	}
	if want := (checkpoints.Norms{Min: 1, Tenth: 1, Quarter: 2.5, Median: 2.5, ThreeQuarters: 2.5, NineTenths: 2.5, Largest: 2.5}); row.Norms.Clipped(row.Clip) != want {
		t.Errorf("after clipping to %v %+v, want %+v", row.Clip, row.Norms.Clipped(row.Clip), want)
	}
	if row.Clip != 2.5 || row.Clipped != 0.8 {
		t.Errorf("clip norm %v, and a share of %v clipped", row.Clip, row.Clipped)
	}
	nobody := b.row(b.server(p, 1, b.origin, b.chunk("nobody", nothing, training.ChunkMetrics{})))
	if nobody.Norms != (checkpoints.Norms{}) {
		t.Errorf("a round without clients has the quantiles %+v", nobody.Norms)
	}
}

func TestServerRejectsChunkWithWrongNormCount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := plain(10)
	p.Chunks = 1
	c := b.chunkOf("x", make([]float32, len(b.model.Params)), []float32{1}, training.ChunkMetrics{Clients: 2, Weight: 2, Tokens: 9})
	spec := must.Get(tasks.NewSpec(Server, p, tasks.Input{Name: tasks.PreviousInput, Key: b.origin.Key}, tasks.Input{Name: tasks.PartInput(0), Key: c.Key}))(t)
	spec.Step = 1
	if _, err := b.TrySpec(Server, spec); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "chunk 0 has the norms of 1 updates, want those of its 2 clients") {
		t.Errorf("error %v", err)
	}
}

// The model has the bytes that it had before rows held norms, in version 1.
func TestModelMatchesVersion1(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("equal bytes are promised among x86-64 machines")
	}
	b := newBench(t)
	p := plain(2)
	p.Clip, p.NoiseMultiplier = 0.5, 1
	n := b.server(p, 1, b.origin, b.chunk("x", b.random(1), training.ChunkMetrics{Clients: 2, Weight: 2, Tokens: 9, LossSum: 1}))
	if got := storage.DigestOf(n.Blob(tasks.ModelBlob)).String(); got != "55e3b80aeeba4d0bbda791963be3506ea6ba394ec04a0c5d57ccf6b47333af99" {
		t.Errorf("the model's digest is %s", got)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := plain(2)
	p.Clip, p.NoiseMultiplier = 0.5, 1
	taskstest.Golden(t, b.server(p, 1, b.origin, b.chunk("x", b.random(1), training.ChunkMetrics{Clients: 2, Weight: 2, Tokens: 9, LossSum: 1})))
}

func TestTheServersScheduleRunsOverTheRounds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := plain(1)
	p.Clip, p.Schedule = 1, &optimizers.Schedule{WarmUp: 4}
	x := b.random(1)
	chunk := b.chunk("x", x, training.ChunkMetrics{Clients: 1, Weight: 1, Tokens: 1})
	for i, got := range b.read(b.server(p, 1, b.origin, chunk)).Params {
		if want := float64(b.model.Params[i]) + float64(x[i])/4; math.Abs(float64(got)-want) > 1e-6 {
			t.Fatalf("parameter %d is %v, want %v: the first of 4 rounds of warm-up takes a quarter of the mean update", i, got, want)
		}
	}
}

func TestNoNoiseControlKeepsAccountOfClaim(t *testing.T) {
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

// recordedChunk is a chunk of one device that has recorded its update.
func (b *bench) recordedChunk(name string, record *updates.Recording, round, device int) *taskstest.Node {
	b.t.Helper()
	x := b.random(uint64(device))
	r := must.Get(record.NewRecorder(b.model.Network, 1, 1))(b.t)
	r.Add(round, device, x)
	n := b.chunk(name, x, training.ChunkMetrics{Clients: 1, Weight: 1, Tokens: 1})
	n.Blobs[updates.ShardBlob(0)] = r.Bytes()
	return n
}

func TestRecordedUpdatesAreStoredWithCheckpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	record := &updates.Recording{Every: 1, Layers: []string{"cell.bias", "embedding"}}
	x, y := b.recordedChunk("x", record, 1, 4), b.recordedChunk("y", record, 1, 9)
	p := plain(2)
	without := b.server(p, 1, b.origin, x, y)
	p.Record = record
	n := b.server(p, 1, b.origin, x, y)
	if !bytes.Equal(n.Blob(tasks.ModelBlob), without.Blob(tasks.ModelBlob)) {
		t.Error("the model changes with recording")
	}
	for j, chunk := range []*taskstest.Node{x, y} {
		if !bytes.Equal(n.Blob(updates.ShardBlob(j)), chunk.Blob(updates.ShardBlob(0))) {
			t.Errorf("shard %d is not that of chunk %d", j, j)
		}
	}
	p.Record = &updates.Recording{Every: 2, Layers: record.Layers}
	if other := b.server(p, 1, b.origin, x, y); len(other.Blobs) != len(without.Blobs) {
		t.Errorf("a round that is not recorded has the blobs %v", other.Names())
	}
}

func TestARoundBeyondTheBudgetRecordsNoUpdates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := private()
	p.Record = &updates.Recording{Every: 1, Layers: []string{"cell.bias"}}
	p.Guarantee.Budget = &privacy.Budget{Epsilon: 1e-9, Delta: 1e-5}
	n := b.server(p, 1, b.origin, b.recordedChunk("x", p.Record, 1, 4))
	if !b.row(n).Stopped {
		t.Fatal("the round was not stopped")
	}
	s, err := updates.Decode(n.Blob(updates.ShardBlob(0)))
	if err != nil || s.Len() != 0 || s.Layout.Values() == 0 {
		t.Errorf("a shard of %d updates of %d values (%v), want none of some", s.Len(), s.Layout.Values(), err)
	}
}
