package aggregation

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// adapted returns a model with adapters, whose checkpoints refer to an imported model, and that model's file.
func adapted(t *testing.T) (*bench, models.Config, []byte) {
	t.Helper()
	config := models.Config{Kind: models.Transformer, Vocabulary: 50, Embedding: 8, Units: 16, Layers: 2, Heads: 2, Context: 12}
	base := must.Get(checkpoints.NewNetwork(config))(t)
	file := must.Get(checkpoints.Encode(base, base.Init(seeds.Stream(1, seeds.Weights)), nil))(t)
	b := &bench{Graph: taskstest.NewGraph(t), t: t}
	config.Adapters = models.NewAdapters(2, 0, nil)
	b.origin = b.Run(training.Initial, training.InitialParams{Seed: 5, Model: config, Checkpoint: b.Import(file), FrozenApart: true})
	return b, config, file
}

// The frozen parameters stand in the imported file alone: a checkpoint has the size of the adapters, and every reader
// finds the whole model.
func TestCheckpointsOfAdaptersReferToTheImportedModel(t *testing.T) {
	t.Parallel()
	b, config, file := adapted(t)
	network := must.Get(checkpoints.NewNetwork(config))(t)
	trained, sum := network.Trained(), make([]float32, network.Trained())
	for i := range sum {
		sum[i] = float32(i + 1)
	}
	whole := must.Get(checkpoints.Decode(file))(t)
	before := must.Get(checkpoints.Read(t.Context(), b.Task(taskstest.In("m", b.origin)), "m"))(t)
	round := b.server(plain(1), 1, b.origin, b.chunk("x", sum, training.ChunkMetrics{Clients: 1, Weight: 1, Tokens: 1}))
	stored := round.Blob(tasks.ModelBlob)
	if bound := 4*trained + 4096; len(stored) > bound || len(file) < 2*bound {
		t.Errorf("a checkpoint of %d trained parameters has %d bytes, the imported file %d; expected at most %d and far more", trained, len(stored), len(file), bound)
	}
	task := b.Task(taskstest.In("m", round))
	after := must.Get(checkpoints.Read(t.Context(), task, "m"))(t)
	for i := range trained {
		if after.Params[i] != before.Params[i]+sum[i] {
			t.Fatalf("parameter %d is %v after a round that adds %v to %v", i, after.Params[i], sum[i], before.Params[i])
		}
	}
	if !slices.Equal(after.Params[trained:], whole.Params) {
		t.Error("the frozen parameters are not those of the imported file")
	}
	part := must.Get(checkpoints.ReadTrained(t.Context(), task, "m"))(t)
	fixed := must.Get(checkpoints.ReadFixed(t.Context(), task, "m"))(t)
	if !slices.Equal(part.Params, after.Params[:trained]) || !slices.Equal(fixed.Params, whole.Params) {
		t.Error("the parts of the model are not those of the whole")
	}
	complete := must.Get(checkpoints.File(t.Context(), task, "m"))(t)
	if !slices.Equal(must.Get(checkpoints.Decode(complete))(t).Params, after.Params) {
		t.Error("the file for a program is not the whole model")
	}
}

// With a store the imported file is read; without one the error names it.
func TestDecodeNamesMissingImportedModel(t *testing.T) {
	t.Parallel()
	b, _, file := adapted(t)
	stored := b.origin.Blob(tasks.ModelBlob)
	open := func(digest storage.Digest) (io.ReadCloser, error) {
		if digest != storage.DigestOf(file) {
			return nil, storage.ErrNotFound
		}
		return io.NopCloser(bytes.NewReader(file)), nil
	}
	if m, err := checkpoints.DecodeStored(stored, open); err != nil || len(m.Params) != m.Network.Parameters() {
		t.Errorf("from a store: %v", err)
	}
	if _, err := checkpoints.Decode(stored); err == nil || !strings.Contains(err.Error(), "refers to the model "+storage.DigestOf(file).Short()) || !strings.Contains(err.Error(), "coalmine export") {
		t.Errorf("alone: %v", err)
	}
}

// Seeds draw adapters of their own for one imported model.
func TestAdaptersOfAnImportedModelFollowTheSeed(t *testing.T) {
	t.Parallel()
	b, config, file := adapted(t)
	other := b.Run(training.Initial, training.InitialParams{Seed: 6, Model: config, Checkpoint: storage.DigestOf(file), FrozenApart: true})
	if bytes.Equal(other.Blob(tasks.ModelBlob), b.origin.Blob(tasks.ModelBlob)) {
		t.Error("seeds 5 and 6 draw equal adapters")
	}
}
