package endtoend_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/updates"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs/retention"
)

// recordedFile records every round: those of a whole segment, and of one that is open at
// the end.
const recordedFile = `
name: recorded
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}}
model: {embedding: 64, units: 64} # a checkpoint is an object of its own
training:
  rounds: 130
  cohort: 4
  chunks: 2
  checkpoints: {every: 20, keep: 2}
  client: {learning_rate: 1, noise: 0.01, compress: {keep: 50%, bits: 8}}
  record: {layers: [cell, embedding], project: 100}
audit: {}
`

// recordedWorkspace has the experiment above.
func recordedWorkspace(t testing.TB) workspace {
	w := newWorkspace(t)
	w.write("recorded.yaml", recordedFile)
	return w
}

func TestKilledRecordedRunKeepsSameUpdates(t *testing.T) {
	t.Parallel()
	peaceful := recordedWorkspace(t)
	printed(t, peaceful.coalmine("run", "recorded.yaml"))
	w := recordedWorkspace(t)
	w.killed("recorded.yaml", 31, 84, 57)
	printed(t, w.coalmine("run", "recorded.yaml"))
	peaceful.outcome().equals(t, w.outcome())
	want, got := peaceful.gathered(), w.gathered()
	if len(want) != 2 || fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("gathered %v, a run in peace %v", got, want)
	}
	for name, w := range map[string]workspace{"in peace": peaceful, "killed": w} {
		w.hasOnlyClaimedCheckpoints(name)
	}
}

// gathered are the digests of all recorded updates, by the label of the node that
// gathered them.
func (w workspace) gathered() map[string][]storage.Digest {
	w.t.Helper()
	found := map[string][]storage.Digest{}
	archive := w.archive()
	for key, n := range planOf(w.t, archive).Nodes {
		if n.Kind != updates.Gather.Name {
			continue
		}
		c := must.Get(archive.Committed(context.Background(), key))(w.t)
		for _, b := range c.Blobs {
			found[n.Label] = append(found[n.Label], b.Digest)
			if _, err := archive.ReadBlob(context.Background(), key, b); err != nil {
				w.t.Errorf("%s: %v", n.Label, err)
			}
		}
	}
	return found
}

// hasOnlyClaimedCheckpoints fails if a checkpoint is left that only gathering nodes
// needed.
func (w workspace) hasOnlyClaimedCheckpoints(name string) {
	w.t.Helper()
	archive := w.archive()
	for _, chain := range planOf(w.t, archive).Chains {
		claim := retention.ClaimOf(chain)
		for step := 1; step < chain.Steps; step++ {
			c, err := archive.Committed(context.Background(), chain.Key(step))
			if err != nil || claim.Keeps(step, chain.Steps) {
				continue
			}
			if plan.SegmentEnd(step) <= chain.Steps && !plan.Boundary(step) {
				w.t.Errorf("%s: round %d of a closed segment still has its record", name, step)
			}
			missing := must.Get(archive.Missing(context.Background(), c))(w.t)
			for _, b := range c.Blobs {
				if !b.IsInline() && b.Name != tasks.SegmentBlob && !slices.Contains(missing, b.Name) {
					w.t.Errorf("%s: round %d still has its %s", name, step, b.Name)
				}
			}
		}
	}
}
