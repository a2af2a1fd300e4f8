package training

import (
	"context"
	"runtime"

	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/tasks/checkpoints"
)

// ClientsMemory measures how many bytes of heap a task of training/clients holds
// at most, above one copy of the model and one gradient: the client's own copy
// of the parameters, the trainer's memory for a batch of these examples, the sum
// of the updates in float64, and the sum as it is rounded and encoded in the
// end. Caches of the worker are not in it, nor is garbage. It is for benchmarks:
// anything else that allocates in the process meanwhile counts too.
func ClientsMemory(language *models.Language, batch [][]int32) (int64, error) {
	before := liveHeap()
	model := &checkpoints.Model{Language: language, Params: language.Init(seeds.Stream(1, seeds.Weights))}
	params := &ClientsParams{Epochs: 1, Local: Local{
		Optimizer: optimizers.Config{Kind: optimizers.SGD}, LearningRate: 0.1, Batch: len(batch),
	}}
	c, err := newChunkSum(params, model)
	if err != nil {
		return 0, err
	}
	if err := c.add(context.Background(), batch, 1, 0); err != nil {
		return 0, err
	}
	sum := c.rounded()
	data, err := encodeSum(sum)
	if err != nil {
		return 0, err
	}
	held := liveHeap() - before
	runtime.KeepAlive(c)
	runtime.KeepAlive(sum)
	runtime.KeepAlive(data)
	return held - 2*4*int64(language.Parameters()), nil
}

// liveHeap is the number of bytes on the heap that are in use. What pools hold
// outlasts one collection, and what it needs another.
func liveHeap() int64 {
	for range 3 {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
