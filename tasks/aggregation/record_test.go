package aggregation

import (
	"bytes"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
)

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

func TestTheUpdatesOfARecordedRoundStandBesideItsCheckpoint(t *testing.T) {
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
