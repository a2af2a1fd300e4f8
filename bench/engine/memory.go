package engine

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"runtime"

	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/training"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
)

// memoryExperiment trains one client of one batch with the paper's model. A sentence of
// 19 words has 20 targets.
const memoryExperiment = `
name: bench-memory
data: {source: synthetic, vocabulary: {size: 10_000}, users: {words: 304}}
model: {kind: cifg-lstm, embedding: 96, units: 670}
training: {algorithm: fedavg, rounds: 1, cohort: 1, chunks: 1, client: {batch: 16}}
`

// ganMemoryExperiment trains two clients with the paper's GAN, as many as a task of
// examples/augenstein-2020/figure3.yaml.
const ganMemoryExperiment = `
name: bench-memory-gan
data: {source: synthetic, level: image}
model: {kind: gan}
training: {rounds: 1, cohort: 2, chunks: 1, client: {batch: 32}}
`

// ganMemoryText returns JSON lines of users with black images.
func ganMemoryText() []byte {
	pixels := base64.StdEncoding.EncodeToString(make([]byte, digits.Values()))
	var b bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&b, `{"user":"u%d","label":0,"pixels":%q}`+"\n", i/100, pixels)
	}
	return b.Bytes()
}

// memoryText returns JSON lines of users with sentences of 19 words. The test part takes some
// of the words; 10,000 must remain.
func memoryText() []byte {
	var b bytes.Buffer
	for sentence := range 2000 {
		fmt.Fprintf(&b, `{"user":"u%d","text":"`, sentence/20)
		for word := range 19 {
			fmt.Fprintf(&b, "w%d ", (19*sentence+word)%12_000)
		}
		b.WriteString("\"}\n")
	}
	return b.Bytes()
}

func measureMemory(ctx context.Context, _ *bench, r *Row) error {
	bytes, n, err := clientsMemory(ctx, memoryExperiment, memoryText())
	if err != nil {
		return err
	}
	r.memory(bytes-float32Bytes*int64(n.Parameters()+n.Trained()), 64)
	return nil
}

func measureGANMemory(ctx context.Context, _ *bench, r *Row) error {
	bytes, _, err := clientsMemory(ctx, ganMemoryExperiment, ganMemoryText())
	if err != nil {
		return err
	}
	r.memory(bytes, 200)
	return nil
}

const float32Bytes = 4

func (r *Row) memory(bytes int64, most float64) {
	megabytes := float64(bytes) / 1e6
	r.Megabytes = &megabytes
	r.goal(megabytes < most, fmt.Sprintf("under %.0f MB", most))
}

// clientsMemory measures the peak heap of a task of training/clients, in bytes: the trained
// parameters and a gradient, the client's copy of them, the learner's memory, the sum of the
// updates, the encoded sum. It also returns the network. The heap is measured whenever the
// task reports progress or puts an output. Inputs, the worker's caches and garbage are not
// included, but other allocations of the process are.
func clientsMemory(ctx context.Context, file string, text []byte) (int64, models.Network, error) {
	chain, inputs, err := reachFirstRound(ctx, file, text)
	if err != nil {
		return 0, nil, err
	}
	meter := heapMeter{before: liveHeap()}
	task := tasks.NewTask(chain.PartSpec(1, 0), inputs, &meter, nil, func(tasks.Progress) { meter.look(0) })
	if err := training.Clients.Run(ctx, task); err != nil {
		return 0, nil, err
	}
	model, err := checkpoints.Read(ctx, task, tasks.PreviousInput)
	if err != nil {
		return 0, nil, err
	}
	runtime.KeepAlive(inputs)
	return meter.most, model.Network, nil
}

// reachFirstRound makes all inputs of the first round of the experiment.
func reachFirstRound(ctx context.Context, file string, text []byte) (*plan.Chain, tasks.Source, error) {
	s, err := submission.PrepareFile(ctx, "bench", []byte(file), experiment.Options{}, sources.Text(text), nil)
	if err != nil {
		return nil, nil, err
	}
	p, err := compile.Plan(s.Spec)
	if err != nil {
		return nil, nil, err
	}
	chain, x := p.Cells[0].Chain, localexec.New(p, compile.Registry(), text)
	for _, need := range append(chain.StepNeeds(), chain.At(0)) {
		if err := x.Reach(ctx, need); err != nil {
			return nil, nil, err
		}
	}
	return chain, x, nil
}

// heapMeter is a sink that discards its input.
type heapMeter struct{ before, most int64 }

// look records the live heap plus gone bytes that were just freed.
func (m *heapMeter) look(gone int) { m.most = max(m.most, liveHeap()-m.before+int64(gone)) }

// Put implements tasks.Sink. The values encoded in the output took the same amount of memory,
// and are already freed.
func (m *heapMeter) Put(_ context.Context, _ string, data []byte, _ storage.Durability) error {
	m.look(len(data))
	runtime.KeepAlive(data)
	return nil
}

// liveHeap returns the number of bytes in use on the heap. The contents of pools outlast one
// collection.
func liveHeap() int64 {
	for range 3 {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
