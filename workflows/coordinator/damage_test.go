package coordinator

import (
	"context"
	"fmt"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
)

func TestDamagedBlobsAndTornCommitsAreRecomputed(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 10, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 8, Keep: []int{4}, Big: true})
	damaged := make(map[storage.Key]bool)
	damage := func(key storage.Key) {
		if damaged[key] {
			return
		}
		damaged[key] = true
		for _, name := range w.names("blobs/" + key.String()) {
			w.damage(name)
		}
	}
	tear := func(key storage.Key) {
		if damaged[key] {
			return
		}
		damaged[key] = true
		must.Do(t, w.memory.Create(context.Background(), "commits/"+key.String(), []byte(`{"sha256`)))
	}
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		switch {
		case a.Kind == plantest.Join.Name && a.Step == 6:
			damage(a.Inputs[1].Key) // its first part
		case a.Kind == plantest.Part.Name && a.Step == 3:
			damage(a.Inputs[0].Key) // the step before
		case a.Kind == plantest.Standing.Name && len(a.Inputs) > 0:
			damage(a.Inputs[0].Key) // the input of an audit
		case a.Kind == plantest.Join.Name && a.Step == 7:
			tear(a.Key)
		}
		return nil
	}
	w.completes(w.submit("a", 0), "a")
}

// The parts of a step read the model of the step before, but only its join reads the rows of metrics. So
// the parts' success is no sign that the join can read its input.
func TestDamagedBlobReadOnlyByJoinIsRecomputed(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 11, plantest.ChainOptions{Salt: "rows", Width: 2, Steps: 8, Keep: []int{4}, Big: true})
	var joins int
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if a.Kind != plantest.Join.Name || a.Step != 6 {
			return nil
		}
		if joins++; joins == 1 {
			previous := must.Get(w.archive.Committed(context.Background(), a.Inputs[0].Key))(t)
			rows, _ := previous.Blob(tasks.RowsBlob)
			w.damage(fmt.Sprintf("blobs/%s/%s", previous.Key, rows.Digest))
		}
		return nil
	}
	w.untilPhase(runs.Done, w.submit("a", 0))
	if want := 1 + policy.PurgeAfter; joins != want {
		w.fail("%d attempts at the join, want %d", joins, want)
	}
	w.checkTruth("a")
}
